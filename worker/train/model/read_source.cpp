#include "worker/train/model/read_source.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/plan/gather.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

// size in bytes of a block of rows; such a block fits in the cache
constexpr std::int64_t kReadBytes = 1 << 18;

}  // namespace

tensor::DType dtype_of(const Parameters& parameters) {
    return main_type(parameters) == at::kDouble ? tensor::DType::F64 : tensor::DType::F32;
}

convert::Plan plan_whole(const convert::Source& source, tensor::DType dtype) {
    formats::McaConfig one_file = source.config;
    one_file.layout = {};
    one_file.padded_vocab = 0;
    one_file.local_names = false;
    const auto layout = of_disk(convert::mca_layout(source.native, source.model, one_file));
    convert::Plan plan = of_disk(convert::make_plan(source, layout, dtype));
    for (const convert::Comparison& replica : plan.comparisons)
        of_disk(convert::compare(source, replica));
    return plan;
}

void for_blocks(std::int64_t rows, std::int64_t row_bytes,
                const std::function<void(std::int64_t begin, std::int64_t end)>& body) {
    const std::int64_t block = std::max<std::int64_t>(1, kReadBytes / row_bytes);
    at::parallel_for(0, rows, block, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; row += block)
            body(row, std::min(row + block, end));
    });
}

void read_rows(const convert::Source& source, const convert::TargetTensor& target,
               const at::Tensor& to) {
    const std::int64_t rows = to.dim() == 0 ? 1 : to.size(0);
    const std::int64_t row_bytes = static_cast<std::int64_t>(to.nbytes()) / rows;
    auto* bytes = static_cast<std::byte*>(to.data_ptr());
    for_blocks(rows, row_bytes, [&](std::int64_t begin, std::int64_t end) {
        convert::gather_rows(source, target, begin, end, bytes + begin * row_bytes);
    });
}

}  // namespace roll::train
