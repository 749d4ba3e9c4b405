#include "worker/train/model/context.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {
namespace {

// The division of B sequences of `positions` positions.
struct Slices {
    std::int64_t sequences, positions;
    int ranks;

    std::int64_t length() const { return (positions + 2 * ranks - 1) / (2 * ranks); }
    std::int64_t padded() const { return 2 * ranks * length(); }
    // Returns the index of the first whole row of slice `half` (0 or 1) of a sequence on `rank`.
    std::int64_t begin(std::int64_t sequence, int rank, int half) const {
        const std::int64_t slice = half == 0 ? rank : 2 * ranks - 1 - rank;
        return sequence * padded() + slice * length();
    }
    // Calls visit(begin) for each slice of a rank, in the order of the rank's rows.
    template <class Visit>
    void of_rank(int rank, const Visit& visit) const {
        for (std::int64_t sequence = 0; sequence < sequences; ++sequence)
            for (const int half : {0, 1}) visit(begin(sequence, rank, half));
    }
};

// Returns the index of the first whole row of each segment. The last element of the result is the
// number of whole rows. A sequence without segments is one segment.
std::vector<std::int64_t> segment_ends(const Microbatch& data, const Slices& slices) {
    std::vector<std::int64_t> starts;
    for (const std::int64_t start : data.segments)
        starts.push_back(start / slices.positions * slices.padded() + start % slices.positions);
    for (std::int64_t i = 0; data.segments.empty() && i < slices.sequences; ++i)
        starts.push_back(i * slices.padded());
    starts.push_back(slices.sequences * slices.padded());
    return starts;
}

// Adds the attention of the whole rows [begin, begin + length) to `rows`. `first`: the index of the
// whole row `begin` among the rank's own rows.
void add_slice(ContextRows& rows, const std::vector<std::int64_t>& segments, std::int64_t begin,
               std::int64_t length, std::int64_t first, std::vector<std::int64_t>& positions) {
    for (std::size_t i = 0; i + 1 < segments.size(); ++i) {
        const std::int64_t from = std::max(begin, segments[i]),
                           to = std::min(begin + length, segments[i + 1]);
        if (from >= to) continue;
        rows.pieces.push_back({first + from - begin, to - from, segments[i], to - segments[i]});
        for (std::int64_t row = from; row < to; ++row) positions.push_back(row - segments[i]);
    }
}

ContextRows rows_on(const Microbatch& data, const Slices& slices, int rank) {
    const std::vector<std::int64_t> segments = segment_ends(data, slices);
    ContextRows rows{.positions = slices.positions};
    std::vector<std::int64_t> whole, positions, numbers;
    for (int of = 0; of < slices.ranks; ++of)
        slices.of_rank(of, [&](std::int64_t begin) {
            for (std::int64_t i = 0; i < slices.length(); ++i) whole.push_back(begin + i);
        });
    std::int64_t first = 0;
    slices.of_rank(rank, [&](std::int64_t begin) {
        add_slice(rows, segments, begin, slices.length(), first, positions);
        first += slices.length();
        for (std::int64_t row = begin; row < begin + slices.length(); ++row)
            numbers.push_back(row / slices.padded() * slices.positions +
                              std::min(row % slices.padded(), slices.positions - 1));
    });
    rows.number_M = at::tensor(numbers, at::kLong);
    rows.row_W = at::tensor(whole, at::kLong);
    rows.position_M = at::tensor(positions, at::kLong).clamp_max(slices.positions - 1);
    return rows;
}

// Returns this rank's rows of a tensor with one row for each token. `own_M`: the indices of these
// rows among the whole rows.
at::Tensor taken(const at::Tensor& all_BT, const Slices& slices, const at::Tensor& own_M,
                 std::int64_t padding) {
    const at::Tensor padded =
        at::constant_pad_nd(all_BT, {0, slices.padded() - slices.positions}, padding);
    return padded.flatten().index_select(0, own_M).view({slices.sequences, 2 * slices.length()});
}

Microbatch part_of(const Microbatch& data, int ranks, int rank) {
    const Slices slices{data.tokens_BT.size(0), data.tokens_BT.size(1), ranks};
    ROLL_CHECK(data.references.empty() && !data.context);
    Microbatch part = data;
    part.segments.clear();
    part.context = rows_on(data, slices, rank);
    const ContextRows& rows = *part.context;
    const std::int64_t count = rows.number_M.numel();
    const at::Tensor own_M = rows.row_W.narrow(0, rank * count, count);
    part.tokens_BT = taken(data.tokens_BT, slices, own_M, 0);
    part.targets_BT = taken(data.targets_BT, slices, own_M, ops::kIgnored);
    if (data.teacher.ids_MK.defined()) {
        part.teacher = {data.teacher.ids_MK.index_select(0, rows.number_M),
                        data.teacher.log_probs_MK.index_select(0, rows.number_M)};
    }
    return part;
}

// Returns the keys and values as rows, [rows, 2 G D].
at::Tensor as_rows(const at::Tensor& k_BGTD, const at::Tensor& v_BGTD) {
    return at::stack({k_BGTD[0].transpose(0, 1), v_BGTD[0].transpose(0, 1)}, 1).flatten(1);
}

// Returns the keys or the values of rows that as_rows() made.
at::Tensor heads_of(const at::Tensor& row_MX, std::int64_t index, const at::Tensor& like_BGTD) {
    return row_MX.view({row_MX.size(0), 2, like_BGTD.size(1), like_BGTD.size(3)})
        .select(1, index)
        .transpose(0, 1)
        .unsqueeze(0)
        .contiguous();
}

}  // namespace

std::vector<Microbatch> context_parts(std::span<const Microbatch> batch, int ranks, int rank) {
    std::vector<Microbatch> parts(batch.begin(), batch.end());
    if (ranks == 1) return parts;
    for (Microbatch& part : parts) part = part_of(part, ranks, rank);
    return parts;
}

std::vector<Microbatch> context_parts(std::span<const Microbatch> batch, const Communicator* cp) {
    return cp == nullptr ? context_parts(batch, 1, 0)
                         : context_parts(batch, cp->size(), cp->rank());
}

ContextGroup context_group(const Microbatch& data, Communicator* cp, at::Device device) {
    if (!data.context) return {};
    const at::Tensor& row_W = data.context->row_W;
    return {cp, row_W.to(device), row_W.argsort().to(device)};
}

ops::Heads gather_keys(const ContextGroup& group, const ops::Heads& own, Tag tag) {
    const at::Tensor own_MX = as_rows(own.k_BGTD, own.v_BGTD);
    const at::Tensor all_WX =
        gather_over(*group.cp, own_MX, tag).flatten(0, 1).index_select(0, group.place_W);
    return {own.q_BHTD, heads_of(all_WX, 0, own.k_BGTD), heads_of(all_WX, 1, own.v_BGTD)};
}

ops::Heads reduce_keys(const ContextGroup& group, const ops::Heads& d, Tag tag) {
    const at::Tensor all_WX = as_rows(d.k_BGTD, d.v_BGTD).index_select(0, group.row_W);
    const at::Tensor own_MX =
        at::empty({all_WX.size(0) / group.cp->size(), all_WX.size(1)}, all_WX.options());
    group.cp->wait(group.cp->reduce_scatter(own_MX, all_WX, tag));
    const at::ScalarType type = d.q_BHTD.scalar_type();
    return {d.q_BHTD, heads_of(own_MX, 0, d.k_BGTD).to(type),
            heads_of(own_MX, 1, d.v_BGTD).to(type)};
}

}  // namespace roll::train
