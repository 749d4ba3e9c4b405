#include "worker/train/model/packed_base.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "worker/train/model/lazy_zeros.hpp"

namespace roll::train {

at::Tensor weight_of(const Parameters& p, std::size_t i) {
    const spec::PackedForm& form = p.specs[i].form;
    return form.is_packed() ? ops::unpacked(form, p.weight[i], p.flat_weight.scalar_type())
                            : p.weight[i];
}

at::Tensor weight_for_product(const Parameters& p, std::size_t i) {
    const spec::PackedForm& form = p.specs[i].form;
    const bool is_free = p.unpacked_room.defined() && p.unpacked_room.storage().use_count() == 1;
    if (!form.is_packed() || !is_free) return weight_of(p, i);
    const auto place = [&p](at::IntArrayRef sizes, const at::TensorOptions&) {
        return p.unpacked_room.narrow(0, 0, c10::multiply_integers(sizes)).view(sizes);
    };
    return ops::unpacked(form, p.weight[i], p.flat_weight.scalar_type(), place);
}

at::Tensor unpacked_room(const Parameters& p) {
    std::int64_t most = 0;
    for (const ParameterSpec& spec : p.specs)
        if (spec.form.is_packed()) most = std::max(most, spec.sizes[0] * spec.form.columns);
    return most > 0 ? lazy_zeros(most, p.flat_weight.scalar_type()) : at::Tensor();
}

std::int64_t row_elements(const ParameterSpec& spec, std::int64_t element_bytes) {
    return spec.form.is_packed() ? spec.form.row_bytes() / element_bytes
                                 : c10::multiply_integers(spec.sizes) / spec.sizes[0];
}

}  // namespace roll::train
