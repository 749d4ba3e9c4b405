#include "worker/train/ops/swiglu.hpp"

#include "worker/train/ops/kernel.hpp"

namespace roll::ops {
namespace {

template <class T>
Vec<T> sigmoid(Vec<T> x) {
    return Vec<T>(1) / (Vec<T>(1) + x.neg().exp());
}

template <class T>
void swiglu_row_backward(T* dgate_up, const T* da, const T* gate_up, std::int64_t size) {
    for (std::int64_t i = 0; i < size; i += Vec<T>::size()) {
        const int n = static_cast<int>(std::min<std::int64_t>(Vec<T>::size(), size - i));
        const Vec<T> gate = Vec<T>::loadu(gate_up + i, n),
                     up = Vec<T>::loadu(gate_up + size + i, n);
        const Vec<T> d = Vec<T>::loadu(da + i, n), s = sigmoid(gate);
        (d * up * s * (Vec<T>(1) + gate * (Vec<T>(1) - s))).store(dgate_up + i, n);
        (d * gate * s).store(dgate_up + size + i, n);
    }
}

}  // namespace

at::Tensor swiglu(const at::Tensor& gate_up_MJ, SwigluSaved& saved) {
    const std::int64_t rows = gate_up_MJ.size(0), size = gate_up_MJ.size(1) / 2;
    saved = {gate_up_MJ};
    at::Tensor a_MI = at::empty({rows, size}, gate_up_MJ.options());
    for_float_types(gate_up_MJ, [&]<class T>(T) {
        const T* gate_up = gate_up_MJ.const_data_ptr<T>();
        T* a = a_MI.data_ptr<T>();
        for_rows(rows, 8, [&](std::int64_t m) {
            const T* gate = gate_up + m * 2 * size;
            at::vec::map2<T>([](Vec<T> g, Vec<T> u) { return g * sigmoid(g) * u; }, a + m * size,
                             gate, gate + size, size);
        });
    });
    return a_MI;
}

at::Tensor swiglu_backward(const at::Tensor& da_MI, const SwigluSaved& saved) {
    const std::int64_t rows = da_MI.size(0), size = da_MI.size(1);
    at::Tensor dgate_up_MJ = at::empty_like(saved.gate_up_MJ);
    for_float_types(da_MI, [&]<class T>(T) {
        const T *da = da_MI.const_data_ptr<T>(), *in = saved.gate_up_MJ.const_data_ptr<T>();
        T* out = dgate_up_MJ.data_ptr<T>();
        for_rows(rows, 8, [&](std::int64_t m) {
            swiglu_row_backward(out + m * 2 * size, da + m * size, in + m * 2 * size, size);
        });
    });
    return dgate_up_MJ;
}

}  // namespace roll::ops
