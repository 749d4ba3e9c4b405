#include "worker/train/optim/part_blocks.hpp"

#include <algorithm>

#include <ATen/ATen.h>

namespace roll::train {
namespace {

constexpr std::int64_t kBlockElements = 1 << 22;

bool is_vector(const ParameterSpec& spec) { return spec.sizes.size() < 2; }

}  // namespace

std::vector<layout::Part> part_blocks(const std::vector<layout::Part>& parts,
                                      const ParameterSpec& spec) {
    std::vector<layout::Part> blocks;
    for (const layout::Part& part : parts) {
        const std::int64_t columns = is_vector(spec) ? 1 : part.size[1];
        const std::int64_t most = std::max<std::int64_t>(kBlockElements / columns, 1);
        for (std::int64_t row = 0; row < part.size[0]; row += most) {
            layout::Part block = part;
            block.whole[0] += row;
            block.local[0] += row;
            block.size[0] = std::min(most, part.size[0] - row);
            blocks.push_back(block);
        }
    }
    return blocks;
}

at::Tensor view_of(const layout::Part& block, const at::Tensor& own) {
    const at::Tensor rows = own.narrow(0, block.local[0], block.size[0]);
    return own.dim() < 2 ? rows : rows.narrow(1, block.local[1], block.size[1]);
}

at::Tensor indices_of(const layout::Part& block, const ParameterSpec& spec, at::Device device) {
    const at::TensorOptions options = at::TensorOptions(at::kLong).device(device);
    const at::Tensor rows = at::arange(block.whole[0], block.whole[0] + block.size[0], options);
    if (is_vector(spec)) return rows;
    const at::Tensor columns = at::arange(block.whole[1], block.whole[1] + block.size[1], options);
    return (rows * whole_sizes(spec)[1]).unsqueeze(1) + columns;
}

}  // namespace roll::train
