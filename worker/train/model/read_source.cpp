#include "worker/train/model/read_source.hpp"

#include <algorithm>
#include <atomic>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/plan/gather.hpp"
#include "worker/train/model/parts_in.hpp"
#include "worker/train/model/tensor_shard.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

// size in bytes of a block of rows; such a block fits in the cache
constexpr std::int64_t kReadBytes = 1 << 18;

std::atomic<std::int64_t> all_read = 0;

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
    return of_disk(convert::make_plan(source, layout, dtype));
}

void for_blocks(std::int64_t rows, std::int64_t row_bytes,
                const std::function<void(std::int64_t begin, std::int64_t end)>& body) {
    const std::int64_t block = std::max<std::int64_t>(1, kReadBytes / row_bytes);
    at::parallel_for(0, rows, block, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; row += block)
            body(row, std::min(row + block, end));
    });
}

void count_read(std::int64_t bytes) { all_read += bytes; }

std::int64_t bytes_read() { return all_read; }

void SourceReader::note(const convert::TargetTensor& target) {
    for (const convert::Copy& copy : target.copies) read_.insert(copy.source);
    count_read(convert::bytes_read(source_, target));
}

void SourceReader::read_rows(const convert::TargetTensor& target, const at::Tensor& to) {
    note(target);
    const std::int64_t rows = to.dim() == 0 ? 1 : to.size(0);
    const std::int64_t row_bytes = static_cast<std::int64_t>(to.nbytes()) / rows;
    auto* bytes = static_cast<std::byte*>(to.data_ptr());
    for_blocks(rows, row_bytes, [&](std::int64_t begin, std::int64_t end) {
        convert::gather_rows(source_, target, begin, end, bytes + begin * row_bytes);
    });
}

void SourceReader::read_part(const convert::TargetTensor& whole, const ParameterSpec& spec,
                             const layout::Rows& rows, const at::Tensor& own) {
    const at::Tensor kept = own.narrow(0, rows.begin, rows.count);
    if (!spec.parts.empty()) kept.zero_();
    for (const layout::Part& part : parts_in(spec, rows)) {
        const convert::TargetTensor block = convert::block_of(whole, part.whole, part.size);
        const at::Tensor to = part_view(kept, part.local, part.size);
        const bool is_direct = to.is_contiguous();
        const at::Tensor read = is_direct ? to : at::empty(part.size, to.options());
        read_rows(block, read);
        if (!is_direct) to.copy_(read);
    }
}

void SourceReader::compare_replicas(const convert::Plan& plan) const {
    for (const convert::Comparison& replica : plan.comparisons) {
        if (!read_.contains(replica.first)) continue;
        of_disk(convert::compare(source_, replica));
        const tensor::DType type = source_.tensors[replica.first].view.info.dtype;
        count_read(2 * tensor::volume(replica.size) * tensor::bits_of(type) / 8);
    }
}

}  // namespace roll::train
