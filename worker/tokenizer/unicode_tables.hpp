// What make_unicode_tables.py wrote. Only unicode.cpp and normal_form.cpp read it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace roll::tokenizer {

// A run of code points with one value, up to the next run: first code point << 8 | value.
extern const std::uint32_t kCategoryRuns[];  // value: general category, in the order of Category
extern const std::size_t kCategoryRuns_size;
extern const std::uint32_t kCombiningRuns[];  // value: canonical combining class
extern const std::size_t kCombiningRuns_size;

// Canonical decompositions: composes back << 63 | code point << 42 | first << 21 | second (0:
// none).
extern const std::uint64_t kDecompositions[];
extern const std::size_t kDecompositions_size;

}  // namespace roll::tokenizer
