// Reductions over all elements of a parameter, of which each rank has a part.
#pragma once

#include <cstddef>
#include <vector>

#include "worker/layout/rows.hpp"
#include "worker/layout/shards.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Returns the blocks of the whole parameter that are in the rows `rows` of a rank's tensor.
// Part::local counts from the first of these rows. Padding is in no block. Pure.
std::vector<layout::Part> parts_in(const ParameterSpec& spec, const layout::Rows& rows);

class WholeSums {
  public:
    // `dp`, `tp`: the groups of the ranks that share the parameters; null: there is no such group.
    // All arguments must outlive this object.
    WholeSums(const Parameters& parameters, Communicator* dp, Communicator* tp);

    // Returns the blocks of parameter `i` that this rank adds to sums. These are the rank's own
    // rows. Returns no blocks if another tensor-parallel rank has the same elements and adds them.
    std::vector<layout::Part> parts(std::size_t i) const;

    // Reduces `values` in place over the ranks that have different elements of the parameters.
    // Every rank of the groups must call this function with a tensor of the same size.
    void reduce(const at::Tensor& values, Reduce how) const;

  private:
    const Parameters& parameters_;
    Communicator *dp_, *tp_;
};

}  // namespace roll::train
