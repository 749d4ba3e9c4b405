#include <ATen/ATen.h>

#include "worker/train/ops/gpu.hpp"
#include "worker/train/ops/packed.hpp"

namespace roll::ops::gpu {
namespace {

using spec::kPackedBlock;
using spec::kPackedScales;
using spec::LoraBase;
using spec::PackedForm;

constexpr std::int64_t kUnpacked = 1 << 22;  // number of weights that are unpacked at a time

at::Tensor table_of(std::span<const float> values) {
    return at::tensor(at::ArrayRef<float>(values.data(), values.size()));
}

// Returns `count` numbers of `type` that begin at byte `begin` of each row.
at::Tensor numbers_at(const at::Tensor& bytes_MR, std::int64_t begin, std::int64_t count,
                      at::ScalarType type) {
    const auto size = static_cast<std::int64_t>(c10::elementSize(type));
    return bytes_MR.narrow(1, begin, count * size).contiguous().view(type);
}

// Returns the numbers of `table` that the bytes `codes` select.
at::Tensor selected(const at::Tensor& table, const at::Tensor& codes_MB) {
    return table.index_select(0, codes_MB.flatten().to(at::kInt));
}

// Unpacks rows of one form. The tables are on the device of the rows.
struct Unpacker {
    Unpacker(const PackedForm& packed_form, at::Device device) : form(packed_form) {
        if (form.base == LoraBase::Int8) return;
        const at::Tensor values = table_of(nf4_values());
        // Row b has the two weights of byte b.
        pairs = at::stack({values.repeat_interleave(16), values.repeat(16)}, 1).to(device);
        if (form.packs_scales) scales = table_of(scale_values()).to(device);
    }

    // Returns the scales of the blocks of each row.
    at::Tensor scales_of(const at::Tensor& bytes_MR) const {
        const std::int64_t blocks = form.blocks(), groups = form.scale_groups();
        if (!form.packs_scales) return numbers_at(bytes_MR, 0, blocks, at::kFloat);
        const at::Tensor offset_M1 = numbers_at(bytes_MR, 0, 1, at::kFloat);
        const at::Tensor phase_M1 = numbers_at(bytes_MR, 4, 1, at::kInt).to(at::kLong);
        const at::Tensor group_MG = numbers_at(bytes_MR, 8, groups, at::kFloat);
        const at::Tensor codes_MB = bytes_MR.narrow(1, 8 + 4 * groups, blocks);
        const at::Tensor index_MB = (phase_M1 + at::arange(blocks, phase_M1.options()))
                                        .div_(kPackedScales, /*rounding_mode=*/"floor");
        return selected(scales, codes_MB)
            .view(codes_MB.sizes())
            .mul_(group_MG.gather(1, index_MB))
            .add_(offset_M1);
    }

    at::Tensor operator()(const at::Tensor& bytes_MR) const {
        const std::int64_t rows = bytes_MR.size(0);
        if (form.base == LoraBase::Int8) {
            const at::Tensor codes_MC = numbers_at(bytes_MR, 4, form.columns, at::kChar);
            return codes_MC.to(at::kFloat)
                .mul_(numbers_at(bytes_MR, 0, 1, at::kFloat))
                .mul_(kOf127);
        }
        const std::int64_t bytes = (form.columns + 1) / 2;
        const std::int64_t shift = form.first_column - form.first_block() * kPackedBlock;
        const at::Tensor scale_MC = scales_of(bytes_MR)
                                        .unsqueeze(2)
                                        .expand({rows, form.blocks(), kPackedBlock})
                                        .reshape({rows, form.blocks() * kPackedBlock})
                                        .narrow(1, shift, form.columns);
        return selected(pairs, bytes_MR.narrow(1, form.scale_bytes(), bytes))
            .view({rows, 2 * bytes})
            .narrow(1, 0, form.columns)
            .mul_(scale_MC);
    }

    const PackedForm& form;
    at::Tensor pairs, scales;
};

}  // namespace

at::Tensor unpacked(const PackedForm& form, const at::Tensor& bytes_OR, at::ScalarType type) {
    const std::int64_t rows = bytes_OR.size(0);
    const std::int64_t most = std::max<std::int64_t>(kUnpacked / form.columns, 1);
    const Unpacker unpack(form, bytes_OR.device());
    at::Tensor w_OI = at::empty({rows, form.columns}, bytes_OR.options().dtype(type));
    for (std::int64_t row = 0; row < rows; row += most) {
        const std::int64_t count = std::min(most, rows - row);
        w_OI.narrow(0, row, count).copy_(unpack(bytes_OR.narrow(0, row, count)));
    }
    return w_OI;
}

}  // namespace roll::ops::gpu
