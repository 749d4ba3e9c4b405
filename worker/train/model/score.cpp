#include "worker/train/model/score.hpp"

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/ops/kernel.hpp"

namespace roll::train {
namespace {

at::Tensor last_rows(const Microbatch& data, const at::Tensor& h_MC) {
    ROLL_CHECK(!data.segments.empty());
    std::vector<std::int64_t> rows(data.segments.begin() + 1, data.segments.end());
    rows.push_back(data.tokens_BT.numel());
    return (at::tensor(rows, at::kLong) - 1).to(h_MC.device());
}

}  // namespace

std::vector<double> score_values(const at::Tensor& h_MC, const at::Tensor& w_1C,
                                 const Microbatch& data) {
    const at::Tensor h_SC = ops::wide(h_MC.index_select(0, last_rows(data, h_MC)));
    const at::Tensor score_S = h_SC.mv(ops::wide(w_1C)[0]).cpu().to(at::kDouble);
    const auto* scores = score_S.const_data_ptr<double>();
    return {scores, scores + score_S.numel()};
}

ScoreGrads score_backward(const at::Tensor& h_MC, const at::Tensor& w_1C, const Microbatch& data,
                          std::span<const double> coefficients) {
    const at::Tensor rows_S = last_rows(data, h_MC);
    const at::Tensor w = ops::wide(w_1C);
    const at::Tensor factor_S1 =
        at::tensor(at::ArrayRef<double>(coefficients.data(), coefficients.size()), at::kDouble)
            .to(w.options())
            .unsqueeze(1);
    ScoreGrads grads;
    grads.dw_1C = factor_S1.t().mm(ops::wide(h_MC.index_select(0, rows_S)));
    grads.dh_MC = at::zeros_like(h_MC);
    grads.dh_MC.index_copy_(0, rows_S, (factor_S1 * w).to(h_MC.scalar_type()));
    return grads;
}

}  // namespace roll::train
