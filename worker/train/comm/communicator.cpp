#include "worker/train/comm/communicator.hpp"

#include <vector>

#include <ATen/ATen.h>

namespace roll::train {

void sum_over(Communicator& group, const at::Tensor& tensor) {
    if (group.size() > 1) group.wait(group.all_reduce(tensor));
}

at::Tensor gather_over(Communicator& group, const at::Tensor& own) {
    std::vector<std::int64_t> sizes = own.sizes().vec();
    sizes.insert(sizes.begin(), group.size());
    // A sum with zeros is exact, so the sum has each rank's values unchanged.
    const at::Tensor all = at::zeros(sizes, own.options());
    all.select(0, group.rank()).copy_(own);
    sum_over(group, all);
    return all;
}

void barrier(Communicator& group) { sum_over(group, at::zeros({1}, at::kDouble)); }

}  // namespace roll::train
