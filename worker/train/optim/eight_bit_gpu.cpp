#include <ATen/ATen.h>

#include "worker/train/optim/eight_bit.hpp"
#include "worker/train/optim/part_blocks.hpp"
#include "worker/train/optim/rules.hpp"

namespace roll::train {
namespace {

// The values of the codes, and the points at which the nearest code changes, on a GPU.
struct GpuCodes {
    GpuCodes(bool is_signed, const at::TensorOptions& options) {
        const std::array<float, 256> table = code_table(is_signed);
        const at::Tensor values = at::tensor(at::ArrayRef<float>(table.data(), table.size()));
        value = values.to(options);
        border = ((values.slice(0, 0, -1) + values.slice(0, 1)) / 2).to(options);
    }

    at::Tensor values(const at::Tensor& codes) const {
        return value.index_select(0, codes.flatten().to(at::kInt)).view(codes.sizes());
    }
    at::Tensor nearest(const at::Tensor& values) const {
        return at::bucketize(values, border, /*out_int32=*/true);
    }

    at::Tensor value, border;
};

// Returns the codes of first moments. As in bitsandbytes, a code has the sign of the value.
at::Tensor signed_codes(const GpuCodes& codes, const at::Tensor& values) {
    const at::Tensor nearest = codes.nearest(values);
    const at::Tensor differs = codes.values(nearest).signbit().ne(values.signbit());
    const at::Tensor step = values.gt(0).to(at::kInt).mul_(2).sub_(1);
    return nearest.add_(step.mul_(differs.to(at::kInt)));
}

struct GpuTables {
    explicit GpuTables(const at::TensorOptions& options)
        : first(true, options),
          second(false, options) {}

    GpuCodes first, second;
};

// The moments of a block of elements after an update. `scale`: for each element, the index of the
// block of kCodeBlock elements whose scale it uses.
struct Moments {
    Moments(const Update& u, const layout::Part& block, const GpuTables& tables) {
        const Parameters& p = u.parameters;
        const at::Tensor g = view_of(block, p.own_grad[u.index]);
        scale = indices_of(block, p.specs[u.index], g.device())
                    .div_(kCodeBlock, /*rounding_mode=*/"floor")
                    .flatten();
        const auto decoded = [&](const GpuCodes& codes, std::size_t k) {
            return codes.values(view_of(block, u.state[k])).mul_(scales(u.state[k + 2], g));
        };
        m = decoded(tables.first, 0).mul_(u.options.beta1).add_(g, 1 - u.options.beta1);
        v = decoded(tables.second, 1).mul_(u.options.beta2).addcmul_(g, g, 1 - u.options.beta2);
    }

    // Returns the scale of each element.
    at::Tensor scales(const at::Tensor& of_blocks, const at::Tensor& elements) const {
        return of_blocks.index_select(0, scale).view(elements.sizes());
    }

    // Divides a moment by its scales. The result is 0 if the scale is 0.
    at::Tensor scaled(const at::Tensor& moment, const at::Tensor& of_blocks) const {
        const at::Tensor divisor = scales(of_blocks, moment);
        return at::where(divisor.gt(0), moment / divisor, at::zeros({}, moment.options()));
    }

    at::Tensor scale, m, v;
};

void find_most_on_gpu(const Update& update, const std::vector<layout::Part>& parts,
                      const GpuTables& tables, at::Tensor most1, at::Tensor most2) {
    for (const layout::Part& block : part_blocks(parts, update.parameters.specs[update.index])) {
        const Moments moments(update, block, tables);
        most1.scatter_reduce_(0, moments.scale, moments.m.abs().flatten(), "amax");
        most2.scatter_reduce_(0, moments.scale, moments.v.flatten(), "amax");
    }
}

void move_on_gpu(const Update& update, const GpuTables& tables, const at::Tensor& most1,
                 const at::Tensor& most2) {
    const Parameters& p = update.parameters;
    const ParameterSpec& spec = p.specs[update.index];
    const EightBitFactors factors = eight_bit_factors(update);
    for (const layout::Part& block : part_blocks(parts_in(spec, p.own[update.index]), spec)) {
        const Moments moments(update, block, tables);
        view_of(block, p.main[update.index])
            .sub_((moments.m * factors.step).div_(moments.v.sqrt().add_(factors.eps)))
            .mul_(factors.keep);
        view_of(block, update.state[0])
            .copy_(signed_codes(tables.first, moments.scaled(moments.m, most1)));
        view_of(block, update.state[1])
            .copy_(tables.second.nearest(moments.scaled(moments.v, most2)));
    }
    update.state[2].copy_(most1);
    update.state[3].copy_(most2);
}

}  // namespace

void adamw_8bit_on_gpu(std::span<const Update> updates, const WholeSums& sums) {
    std::int64_t size = 0;
    for (const Update& update : updates) size += 2 * update.state[2].numel();
    const at::TensorOptions options = updates[0].state[2].options();
    const at::Tensor most = at::zeros({size}, options);
    const GpuTables tables(options);
    const auto for_each = [&](const auto& body) {
        std::int64_t place = 0;
        for (const Update& update : updates) {
            const std::int64_t blocks = update.state[2].numel();
            body(update, most.narrow(0, place, blocks), most.narrow(0, place + blocks, blocks));
            place += 2 * blocks;
        }
    };
    for_each([&](const Update& update, const at::Tensor& most1, const at::Tensor& most2) {
        find_most_on_gpu(update, sums.parts(update.index), tables, most1, most2);
    });
    sums.reduce(most, Reduce::Max);
    for_each([&](const Update& update, const at::Tensor& most1, const at::Tensor& most2) {
        move_on_gpu(update, tables, most1, most2);
    });
}

}  // namespace roll::train
