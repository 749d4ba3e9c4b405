#include "worker/plan/packed_bytes.hpp"

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
