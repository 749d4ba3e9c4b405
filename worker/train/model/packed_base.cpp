#include "worker/train/model/packed_base.hpp"

#include <ATen/ATen.h>

namespace roll::train {

at::Tensor weight_of(const Parameters& p, std::size_t i) {
    const spec::PackedForm& form = p.specs[i].form;
    return form.is_packed() ? ops::unpacked(form, p.weight[i], p.flat_weight.scalar_type())
                            : p.weight[i];
}

std::int64_t row_elements(const ParameterSpec& spec, std::int64_t element_bytes) {
    return spec.form.is_packed() ? spec.form.row_bytes() / element_bytes
                                 : c10::multiply_integers(spec.sizes) / spec.sizes[0];
}

}  // namespace roll::train
