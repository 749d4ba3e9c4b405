#include "worker/train/model/sequence_rows.hpp"

#include <ATen/ATen.h>

#include "worker/train/ops/rope.hpp"

namespace roll::train {

// Returns the angles of the positions.
ops::RopeTable SequenceTable::at(const at::Tensor& position_M) const {
    const at::Tensor rows = position_M.to(rope_.cos_TE.device());
    return {rope_.cos_TE.index_select(0, rows), rope_.sin_TE.index_select(0, rows)};
}

SequenceRows SequenceTable::rows_of(const Microbatch& data, const spec::ModelConfig& config,
                                    const RowSplit& rows, Communicator* cp,
                                    const at::TensorOptions& angles) {
    const std::int64_t length = data.tokens_BT.size(1), all = data.tokens_BT.numel();
    const std::int64_t positions = data.context ? data.context->positions : length;
    if (!rope_.cos_TE.defined() || rope_.cos_TE.size(0) != positions) {
        rope_ = ops::rope_table(positions, config.head_dim, config.rope_theta, config.rope_scaling,
                                c10::typeMetaToScalarType(angles.dtype()));
        rope_ = {rope_.cos_TE.to(angles.device()), rope_.sin_TE.to(angles.device())};
    }
    if (const auto& part = data.context)
        return {all,           at(part->position_M), part->pieces,
                rows,          data.first_row,       context_group(data, cp, angles.device()),
                part->number_M};
    if (data.segments.empty()) return {positions, rope_, {}, rows, data.first_row};
    const at::Tensor start_M = at::zeros({all}, at::kLong);
    for (const std::int64_t start : data.segments) start_M[start] = start;
    return {all, at(at::arange(all) - std::get<0>(start_M.cummax(0))),
            ops::segment_pieces(data.segments, all), rows, data.first_row};
}

}  // namespace roll::train
