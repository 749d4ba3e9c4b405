// Compares two checkpoints of any formats and layouts, tensor by tensor of the model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

struct Difference {
    std::string name;           // of the HuggingFace tensor
    std::int64_t elements = 0;  // that differ in a bit
    double max_abs = 0;
    double max_rel = 0;        // of |b|'s largest; 0 if that is 0
    std::int64_t max_ulp = 0;  // numbers of the type between; INT64_MAX: a NaN, or of other kinds
};

struct Diff {
    std::size_t tensors = 0;  // compared
    std::vector<Difference> differences;
    std::vector<std::string> only_first;
    std::vector<std::string> only_second;
    bool same() const { return differences.empty() && only_first.empty() && only_second.empty(); }
};

// Of the tensors each count-th, from number `index` on.
struct Share {
    int index = 0;
    int count = 1;
    bool has(std::size_t number) const {
        return static_cast<int>(number % static_cast<std::size_t>(count)) == index;
    }
};

// Tensors of different types are compared after casting the first to the second's, if `cast`; else
// they differ. `stopped` ends the comparison with Unavailable.
Result<Diff> diff(const Source& first, const Source& second, bool cast,
                  const std::function<bool()>& stopped, Share share = {});

}  // namespace roll::convert
