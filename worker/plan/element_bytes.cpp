#include "worker/plan/element_bytes.hpp"

namespace roll::plan {

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

}  // namespace roll::plan
