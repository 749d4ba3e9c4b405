#include "worker/train/model/noise.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "worker/train/model/random.hpp"

namespace roll::train {

void add_noise(const Microbatch& data, const LossRule& rule, const RowSplit& rows,
               at::ScalarType type, const at::Tensor& x_MC) {
    if (rule.tokens.neftune_alpha == 0) return;
    const std::int64_t positions = data.tokens_BT.size(1), width = x_MC.size(1);
    const std::int64_t own = rows.rows_per_rank();
    const std::int64_t begin = rows.is_split() ? std::min(rows.tp->rank() * own, rows.rows) : 0;
    const at::Tensor noise_MC =
        at::empty({std::min(own, rows.rows - begin), width}, at::TensorOptions(type));
    const double bound =
        rule.tokens.neftune_alpha / std::sqrt(static_cast<double>(positions * width));
    fill_uniform(noise_MC, bound, rule.seed, "neftune", (data.first_row + begin) * width);
    x_MC.narrow(0, 0, noise_MC.size(0)).add_(noise_MC.to(x_MC.device()));
}

}  // namespace roll::train
