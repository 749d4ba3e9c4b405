#include "worker/train/optim/whole_sums.hpp"

#include <algorithm>

namespace roll::train {

std::vector<layout::Part> parts_in(const ParameterSpec& spec, const layout::Rows& rows) {
    const std::vector<std::int64_t> start(spec.sizes.size());
    const std::vector<layout::Part> whole{{start, spec.sizes, start}};
    std::vector<layout::Part> parts;
    for (layout::Part part : spec.parts.empty() ? whole : spec.parts) {
        const std::int64_t first = std::max(rows.begin, part.local[0]);
        const std::int64_t last = std::min(rows.begin + rows.count, part.local[0] + part.size[0]);
        if (first >= last) continue;
        part.whole[0] += first - part.local[0];
        part.size[0] = last - first;
        part.local[0] = first - rows.begin;
        parts.push_back(std::move(part));
    }
    return parts;
}

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
