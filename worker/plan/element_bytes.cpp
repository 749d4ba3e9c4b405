#include "worker/plan/element_bytes.hpp"

#include <algorithm>
#include <array>

#include "common/spec/train/packed_form.hpp"

namespace roll::plan {
namespace {

// A matrix of a decoder layer.
struct Matrix {
    std::int64_t rows = 0, columns = 0;
};

std::array<Matrix, 4> layer_matrices(const spec::ModelConfig& m) {
    const std::int64_t attention = m.heads * m.head_dim;
    return {{{attention + 2 * m.kv_heads * m.head_dim, m.hidden},
             {m.hidden, attention},
             {2 * m.intermediate, m.hidden},
             {m.hidden, m.intermediate}}};
}

}  // namespace

std::int64_t main_bytes(spec::Precision precision) {
    return precision == spec::Precision::Fp64 ? 8 : 4;
}

std::int64_t element_bytes(spec::Precision precision) {
    const bool is_narrow = precision == spec::Precision::Bf16 || precision == spec::Precision::Fp16;
    return is_narrow ? 2 : main_bytes(precision);
}

std::int64_t copy_bytes(spec::Precision precision, bool on_gpu) {
    const std::int64_t main = main_bytes(precision), element = element_bytes(precision);
    if (element == main) return 0;
    return precision == spec::Precision::Bf16 && !on_gpu ? main - element : main;
}

std::int64_t snapshot_bytes(const spec::TrainSpec& spec, bool is_lora, std::int64_t weights,
                            std::int64_t states) {
    const std::int64_t dp = spec.parallel.replicas();
    const bool by_rows = spec.parallel.zero > 0 || is_lora;
    const std::int64_t most = by_rows ? weights + (states + dp - 1) / dp
                                      : std::max(weights, (weights + states + dp - 1) / dp);
    return std::min(most * main_bytes(spec.precision), spec.checkpoint_buffer_mib << 20);
}

std::int64_t layer_saving(const spec::ModelConfig& m, std::int64_t element) {
    if (!m.lora.is_set() || m.lora.base == spec::LoraBase::Full) return 0;
    std::int64_t saved = 0;
    for (const Matrix& matrix : layer_matrices(m)) {
        const spec::PackedForm form{m.lora.base, m.lora.double_quantization, 0, matrix.columns};
        saved += matrix.rows * (matrix.columns * element - form.row_bytes());
    }
    return saved;
}

std::int64_t largest_unpacked(const spec::ModelConfig& m) {
    if (!m.lora.is_set() || m.lora.base == spec::LoraBase::Full) return 0;
    std::int64_t most = 0;
    for (const Matrix& matrix : layer_matrices(m))
        most = std::max(most, matrix.rows * matrix.columns);
    return most;
}

}  // namespace roll::plan
