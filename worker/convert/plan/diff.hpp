// Compares two checkpoints tensor by tensor. Their formats and layouts may differ.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

struct Difference {
    std::string name;           // the tensor's HuggingFace name
    std::int64_t elements = 0;  // number of elements that differ in at least one bit
    double max_abs = 0;
    double max_rel = 0;  // max_abs divided by the largest |b|; 0 if all b are 0
    // distance in units in the last place; INT64_MAX if a value is NaN, or if the type or shape
    // differs
    std::int64_t max_ulp = 0;
    // description of both types and shapes, for messages; empty if they are equal
    std::string unlike{};
    bool castable = false;  // true if only the types differ, and diff() with `cast` accepts both
};

struct Diff {
    std::size_t tensors = 0;  // number of compared tensors
    std::vector<Difference> differences;
    std::vector<std::string> only_first;
    std::vector<std::string> only_second;
    bool same() const { return differences.empty() && only_first.empty() && only_second.empty(); }
};

// One of `count` equal shares of the tensors. The share has the tensors with the numbers `index`,
// `index` + `count`, `index` + 2 `count`, ...
struct Share {
    int index = 0;
    int count = 1;
    bool has(std::size_t number) const {
        return static_cast<int>(number % static_cast<std::size_t>(count)) == index;
    }
};

// Compares the tensors of `share`. With `cast`, casts each tensor of `first` to the type of the
// tensor with the same name in `second`. Without `cast`, tensors of different types count as
// different. Fails with Unavailable if `stopped` returns true.
Result<Diff> diff(const Source& first, const Source& second, bool cast,
                  const std::function<bool()>& stopped, Share share = {});

// Compares each copy (Model::SecondName) with its original. Fails with Corrupt if they differ; the
// message names the copy.
Result<void> check_copies(const Source& source);

}  // namespace roll::convert
