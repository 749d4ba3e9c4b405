#include "worker/convert/read/quantized.hpp"

#include <array>

#include "worker/convert/checkpoint/matcher.hpp"
#include "worker/convert/read/bitsandbytes.hpp"

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

struct Method {
    std::string_view word;  // value of quant_method in the config
    const char* name;
    const char* tool;  // the tool that dequantizes weights of this method
};
constexpr const char* kItsLibrary = "the library that quantized the model";
constexpr std::array<Method, 6> kMethods{{
    {"gptq", "GPTQ", "GPTQModel"},
    {"awq", "AWQ", "AutoAWQ"},
    {"bitsandbytes", "bitsandbytes", "model.dequantize() of transformers"},
    {"compressed-tensors", "compressed-tensors",
     "CompressedTensorsConfig(dequantize=True) of transformers"},
    {"mxfp4", "MXFP4", "Mxfp4Config(dequantize=True) of transformers"},
    {"torchao", "torchao", "dequantize() of torchao's tensors"},
}};

// A suffix of tensor names by which a quantization method is recognized. The method adds tensors
// with this suffix, or stores such tensors instead of the weights.
struct Ending {
    std::string_view text;
    const char* name;
    const char* tool;
};
constexpr std::array<Ending, 9> kEndings{{
    {".qweight", "GPTQ or AWQ", "GPTQModel or AutoAWQ"},
    {".weight_packed", "compressed-tensors", kMethods[3].tool},
    {".weight_scale", "compressed-tensors or a similar method", kItsLibrary},
    {".weight.absmax", "bitsandbytes", kMethods[2].tool},
    {".SCB", "bitsandbytes", kMethods[2].tool},
    {"_proj_blocks", "MXFP4", kMethods[4].tool},
    {"_weight_qdata", "torchao", kMethods[5].tool},
    {"_weight_int_data", "torchao", kMethods[5].tool},
    {".weight_quanto", "quanto", kItsLibrary},
}};

tl::unexpected<Error> refuse(const std::filesystem::path& path, const std::string& method,
                             const std::string& why, const std::string& tool) {
    return fail(ErrorCode::InvalidArgument,
                path.string() + " is quantized by " + method + " (" + why +
                    "); its weights cannot be read as numbers",
                "convert the original model, or dequantize this one with " + tool + " first");
}

// Returns the config's quantization entry; nullptr if the config has none.
const Json* quantization_in(const Json& config) {
    for (const char* key : {"quantization_config", "compression_config"})
        if (const auto found = config.find(key); found != config.end() && found->is_object())
            return &*found;
    return nullptr;
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
        source.overlay.scales.emplace(number->second, scale);
        source.overlay.dtypes.emplace(number->second, tensor::DType::BF16);
    }
    source.overlay.quantization = source.config.hf_config.value(kQuantization, Json());
    source.config.hf_config.erase(kQuantization);
    return {};
}

Result<void> check_not_quantized(const std::filesystem::path& directory, const Json& hf_config) {
    const Json* found = quantization_in(hf_config);
    for (const auto& [key, part] : hf_config.items())
        if (found == nullptr && part.is_object()) found = quantization_in(part);
    if (found == nullptr) return {};
    const Json said = found->value("quant_method", Json());
    if (said == "fp8" || is_bitsandbytes(hf_config)) return {};
    const std::string word = said.is_string() ? said.get<std::string>() : "an unknown method";
    const std::string why = "quantization_config.quant_method is " + said.dump();
    for (const Method& method : kMethods)
        if (word == method.word) return refuse(directory, method.name, why, method.tool);
    return refuse(directory, word, why, kItsLibrary);
}

Result<void> check_not_quantized(const std::filesystem::path& file,
                                 const tensor::TensorInfo& info) {
    for (const Ending& ending : kEndings)
        if (info.name.ends_with(ending.text))
            return refuse(file, ending.name, "it has " + info.name, ending.tool);
    const bool eight_bits = info.dtype == tensor::DType::I8 || info.dtype == tensor::DType::U8;
    if (eight_bits && info.shape.size() >= 2)
        return refuse(file, "an unknown method", info.name + " is of type " + name_of(info.dtype),
                      kItsLibrary);
    return {};
}

}  // namespace roll::convert
