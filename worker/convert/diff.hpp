// Compares two checkpoints tensor by tensor, whatever their formats and layouts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

struct Difference {
    std::string name;           // HuggingFace name
    std::int64_t elements = 0;  // number of elements that differ in any bit
    double max_abs = 0;
    double max_rel = 0;        // relative to the largest |b|; 0 if that is 0
    std::int64_t max_ulp = 0;  // in units in the last place; INT64_MAX: NaN or different kinds
};

struct Diff {
    std::size_t tensors = 0;  // number compared
    std::vector<Difference> differences;
    std::vector<std::string> only_first;
    std::vector<std::string> only_second;
    bool same() const { return differences.empty() && only_first.empty() && only_second.empty(); }
};

// Selects every `count`-th tensor, from number `index`.
struct Share {
    int index = 0;
    int count = 1;
    bool has(std::size_t number) const {
        return static_cast<int>(number % static_cast<std::size_t>(count)) == index;
    }
};

// Tensors of different types differ unless `cast`: then the first is cast to the second's type.
// `stopped` ends the comparison with Unavailable.
Result<Diff> diff(const Source& first, const Source& second, bool cast,
                  const std::function<bool()>& stopped, Share share = {});

}  // namespace roll::convert
