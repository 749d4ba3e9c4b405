// Reductions over all elements of a parameter, of which each rank has a part.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "worker/layout/rows.hpp"
#include "worker/layout/shards.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/model/parts_in.hpp"
#include "worker/train/ops/kernel.hpp"

namespace roll::train {

// Calls body(local, whole, count) for each row of the parts, in parallel. The row has `count`
// elements. `local` is the index of its first element in the rank's rows, and `whole` is that
// element's index in the whole parameter. If the parameter is a vector, each part is one row.
template <class Body>
void for_part_rows(std::span<const layout::Part> parts, const ParameterSpec& spec,
                   const Body& body) {
    constexpr std::int64_t kGrain = 1 << 14;  // minimum number of elements per thread
    for (const layout::Part& part : parts) {
        if (spec.sizes.size() < 2) {
            body(part.local[0], part.whole[0], part.size[0]);
            continue;
        }
        const std::int64_t columns = part.size[1];
        ops::for_rows(part.size[0], std::max<std::int64_t>(kGrain / columns, 1),
                      [&](std::int64_t first, std::int64_t count) {
                          for (std::int64_t row = first; row < first + count; ++row)
                              body((part.local[0] + row) * spec.sizes[1] + part.local[1],
                                   (part.whole[0] + row) * whole_sizes(spec)[1] + part.whole[1],
                                   columns);
                      });
    }
}

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
