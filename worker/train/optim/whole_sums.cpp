#include "worker/train/optim/whole_sums.hpp"

namespace roll::train {

WholeSums::WholeSums(const Parameters& parameters, Communicator* dp, Communicator* tp)
    : parameters_(parameters),
      dp_(parameters.is_shared && dp != nullptr && dp->size() > 1 ? dp : nullptr),
      tp_(tp != nullptr && tp->size() > 1 ? tp : nullptr) {}

std::vector<layout::Part> WholeSums::parts(std::size_t i) const {
    const bool is_copy = parameters_.specs[i].parts.empty() && tp_ != nullptr && tp_->rank() > 0;
    if (is_copy) return {};
    return parts_in(parameters_.specs[i], parameters_.own[i]);
}

void WholeSums::reduce(const at::Tensor& values, Reduce how) const {
    const Tag tag{Site::Matrices};
    for (Communicator* const group : {dp_, tp_})
        if (group != nullptr && values.numel() > 0)
            group->wait(group->all_reduce(values, how, tag));
}

}  // namespace roll::train
