// Decides whether a loss or a gradient norm is too high, compared with earlier values. Pure.
#pragma once

#include <optional>
#include <span>

namespace roll::train {

struct OutlierLimit {
    double median = 0;
    double limit = 0;  // a value above this limit is an outlier
};

// Returns the limit that follows from earlier values: their median plus `deviations` standard
// deviations of normal noise, and at least 1/20 above the median. The standard deviation is
// estimated as 1.4826 times the median absolute deviation, because a few outliers hardly change
// this median. Returns nullopt for fewer than 16 values. No value is then an outlier.
std::optional<OutlierLimit> outlier_limit(std::span<const double> values, double deviations);

}  // namespace roll::train
