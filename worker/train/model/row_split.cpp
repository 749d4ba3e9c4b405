#include "worker/train/model/row_split.hpp"

#include <ATen/ATen.h>

namespace roll::train {

at::Tensor PendingRows::finish() {
    tp.wait(ticket);
    return rows;
}

at::Tensor take_rows(const RowSplit& split, const at::Tensor& whole_MX) {
    const std::int64_t each = split.rows_per_rank();
    const at::Tensor padded =
        at::constant_pad_nd(whole_MX, {0, 0, 0, each * split.tp->size() - split.rows});
    return padded.narrow(0, each * split.tp->rank(), each).clone();
}

PendingRows start_gather(const RowSplit& split, const at::Tensor& own_SX, Tag tag) {
    const at::Tensor own = own_SX.contiguous();
    const at::Tensor all = at::empty({own.size(0) * split.tp->size(), own.size(1)}, own.options());
    const Communicator::Ticket ticket = split.tp->all_gather(all, own, tag);
    return {*split.tp, ticket, all.narrow(0, 0, split.rows), own};
}

at::Tensor gather_rows(const RowSplit& split, const at::Tensor& own_SX, Tag tag) {
    return start_gather(split, own_SX, tag).finish();
}

PendingRows start_reduce(const RowSplit& split, const at::Tensor& part_MX, Tag tag,
                         const ops::Place& place) {
    const std::int64_t each = split.rows_per_rank(), padded = each * split.tp->size();
    at::Tensor part = part_MX.contiguous();
    if (padded > split.rows) part = at::constant_pad_nd(part, {0, 0, 0, padded - split.rows});
    const std::int64_t sizes[] = {each, part.size(1)};
    const at::Tensor own = ops::made_in(place, sizes, part.options());
    const Communicator::Ticket ticket = split.tp->reduce_scatter(own, part, tag);
    return {*split.tp, ticket, own, part};
}

at::Tensor reduce_rows(const RowSplit& split, const at::Tensor& part_MX, Tag tag,
                       const ops::Place& place) {
    return start_reduce(split, part_MX, tag, place).finish();
}

}  // namespace roll::train
