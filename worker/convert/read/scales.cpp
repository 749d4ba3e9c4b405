#include "worker/convert/read/scales.hpp"

#include "worker/convert/checkpoint/matcher.hpp"

namespace roll::convert {
namespace {

constexpr const char* kQuantization = "quantization_config";

Result<BlockScale> block_sizes(const Json& hf_config) {
    BlockScale scale;
    const Json sizes =
        hf_config.value(kQuantization, Json::object()).value("weight_block_size", Json());
    if (sizes.is_null()) return scale;
    const auto is_size = [](const Json& size) {
        return size.is_number_integer() && size > 0 && size <= (std::int64_t{1} << 20U);
    };
    if (!sizes.is_array() || sizes.size() != 2 || !is_size(sizes[0]) || !is_size(sizes[1]))
        return fail(ErrorCode::InvalidArgument,
                    "quantization_config.weight_block_size is " + sizes.dump() +
                        "; it must be two whole numbers, such as [128, 128]");
    scale.block_rows = sizes[0];
    scale.block_columns = sizes[1];
    return scale;
}

Result<void> check(const SourceTensor& tensor, const BlockScale& scale) {
    const tensor::TensorInfo& info = scale.scales.info;
    const auto blocks = [](std::int64_t size, std::int64_t block) {
        return (size + block - 1) / block;
    };
    const Shape want{blocks(tensor.stored.shape[0], scale.block_rows),
                     blocks(tensor.stored.shape[1], scale.block_columns)};
    if (info.shape == want && tensor::is_castable(info.dtype)) return {};
    return fail(ErrorCode::Corrupt,
                info.name + " is " + name_of(info.dtype) + " " + tensor::to_string(info.shape) +
                    "; blocks of " + std::to_string(scale.block_rows) + " x " +
                    std::to_string(scale.block_columns) + " need F32 " + tensor::to_string(want));
}

}  // namespace

Result<void> attach_scales(Source& source,
                           const std::map<std::string, tensor::StridedView>& found) {
    if (found.empty()) return {};
    ROLL_TRY(BlockScale scale, block_sizes(source.config.hf_config));
    std::map<std::string, const SourceTensor*> eight_bits;
    for (const SourceTensor& one : source.tensors)
        if (one.stored.shape.size() == 2 && tensor::is_widened(one.view.info.dtype) &&
            !tensor::is_castable(one.view.info.dtype))
            eight_bits[one.stored.name] = &one;
    for (const auto& [name, view] : found) {
        const auto tensor = eight_bits.find(name);
        const auto number = source.model.number.find(name);
        if (tensor == eight_bits.end() || number == source.model.number.end()) {
            ROLL_TRY_VOID(drop_surplus(source, "", view.info.name));
            continue;
        }
        scale.scales = view;
        ROLL_TRY_VOID(check(*tensor->second, scale));
        source.scales.emplace(number->second, scale);
        source.dtypes.emplace(number->second, tensor::DType::BF16);
    }
    source.quantization = source.config.hf_config.value(kQuantization, Json());
    source.config.hf_config.erase(kQuantization);
    return {};
}

}  // namespace roll::convert
