// Determines which elements of a whole parameter are in some rows of a rank's tensor.
#pragma once

#include <vector>

#include "worker/layout/rows.hpp"
#include "worker/layout/shards.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Returns the blocks of the whole parameter whose elements are in the rows `rows` of a rank's
// tensor. Part::local is relative to the first of these rows. Padding belongs to no block. Pure.
std::vector<layout::Part> parts_in(const ParameterSpec& spec, const layout::Rows& rows);

}  // namespace roll::train
