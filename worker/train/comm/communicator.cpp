#include "worker/train/comm/communicator.hpp"

#include <ATen/ATen.h>

namespace roll::train {

void sum_over(Communicator& group, const at::Tensor& tensor) {
    if (group.size() > 1) group.wait(group.all_reduce(tensor));
}

void barrier(Communicator& group) { sum_over(group, at::zeros({1}, at::kDouble)); }

}  // namespace roll::train
