#include "worker/train/model/saved_values.hpp"

namespace roll::train {

std::vector<at::Tensor*> values_of(LayerSaved& s) {
    std::vector<at::Tensor*> values{
        &s.norm1.x_MC,      &s.norm1.rstd_M,       &s.qk_norm.qkv_MP,
        &s.qk_norm.rstd_MR, &s.qk_norm.q.x_MC,     &s.qk_norm.q.rstd_M,
        &s.qk_norm.k.x_MC,  &s.qk_norm.k.rstd_M,   &s.o_MA,
        &s.post_norm1.x_MC, &s.post_norm1.rstd_M,  &s.norm2.x_MC,
        &s.norm2.rstd_M,    &s.gate_up.gate_up_MJ, &s.experts.gate_up_NJ,
        &s.post_norm2.x_MC, &s.post_norm2.rstd_M};
    ops::Heads& heads = s.attention.heads;
    values.insert(values.end(), {&heads.q_BHTD, &heads.k_BGTD, &heads.v_BGTD});
    for (ops::AttentionSaved& part : s.attention.parts)
        for (at::Tensor* const value :
             {&part.heads.q_BHTD, &part.heads.k_BGTD, &part.heads.v_BGTD, &part.out_BTA,
              &part.logsumexp_BHT, &part.flash[0], &part.flash[1]})
            values.push_back(value);
    return values;
}

std::vector<at::Tensor*> values_of(ops::RmsNormSaved& norm, ops::CrossEntropySaved& loss) {
    return {&norm.x_MC, &norm.rstd_M, &loss.dx_MC};
}

}  // namespace roll::train
