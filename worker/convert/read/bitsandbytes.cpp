#include "worker/convert/read/bitsandbytes.hpp"

#include <array>
#include <span>
#include <string_view>

namespace roll::convert {
namespace {

constexpr const char* kBitsConfig = "quantization_config";
constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kState = ".quant_state.bitsandbytes__nf4";
constexpr std::array<std::string_view, 8> kParts{".weight.absmax",
                                                 ".weight.quant_map",
                                                 ".weight.nested_absmax",
                                                 ".weight.nested_quant_map",
                                                 ".SCB",
                                                 ".weight_format",
                                                 ".weight.quant_state.bitsandbytes__nf4",
                                                 ".weight.quant_state.bitsandbytes__fp4"};

tl::unexpected<Error> wrong(const std::string& name, const std::string& why) {
    return fail(ErrorCode::Corrupt, name + " of bitsandbytes " + why);
}

// The tensors of one weight.
class Parts {
  public:
    Parts(const std::map<std::string, tensor::StridedView>& all, std::string weight)
        : all_(all),
          weight_(std::move(weight)) {}

    bool has(std::string_view ending) const { return all_.contains(weight_ + std::string(ending)); }

    // Returns the bytes of a contiguous tensor of `dtype`. If `count` is not negative, the tensor
    // must have this number of elements.
    Result<std::span<const std::byte>> bytes(std::string_view ending, tensor::DType dtype,
                                             std::int64_t count) const {
        const std::string name = weight_ + std::string(ending);
        const auto found = all_.find(name);
        if (found == all_.end()) return wrong(name, "is missing");
        const tensor::TensorInfo& info = found->second.info;
        const std::int64_t elements = tensor::volume(info.shape);
        if (info.dtype != dtype || (count >= 0 && elements != count))
            return wrong(name, std::string("is ") + name_of(info.dtype) + " " +
                                   tensor::to_string(info.shape) + "; it must be " +
                                   name_of(dtype) + " with " + std::to_string(count) + " elements");
        return std::span(found->second.first,
                         static_cast<std::size_t>(elements * tensor::bits_of(dtype) / 8));
    }

    Result<std::vector<float>> floats(std::string_view ending, std::int64_t count) const {
        ROLL_TRY(const auto bytes, this->bytes(ending, tensor::DType::F32, count));
        std::vector<float> values(bytes.size() / sizeof(float));
        tensor::cast(tensor::DType::F32, bytes, tensor::DType::F32,
                     std::as_writable_bytes(std::span(values)));
        return values;
    }

  private:
    const std::map<std::string, tensor::StridedView>& all_;
    std::string weight_;
};

std::int64_t blocks_of(std::int64_t elements, std::int64_t block) {
    return (elements + block - 1) / block;
}

// Returns the scales of a 4-bit weight's blocks. If the scales are themselves quantized (tensor
// .nested_absmax), `state` has the parameters for decoding them.
Result<std::vector<float>> block_scales(const Parts& parts, const Json& state,
                                        std::int64_t blocks) {
    if (!parts.has(".nested_absmax")) return parts.floats(".absmax", blocks);
    const std::int64_t group = state.value("nested_blocksize", std::int64_t{256});
    const auto offset = state.value("nested_offset", 0.0F);
    if (group < 1) return wrong("nested_blocksize", "is not positive");
    ROLL_TRY(const auto codes, parts.bytes(".absmax", tensor::DType::U8, blocks));
    ROLL_TRY(const auto groups, parts.floats(".nested_absmax", blocks_of(blocks, group)));
    ROLL_TRY(const auto map, parts.floats(".nested_quant_map", 256));
    std::vector<float> scales;
    for (std::int64_t i = 0; i < blocks; ++i)
        scales.push_back(map[static_cast<std::size_t>(codes[static_cast<std::size_t>(i)])] *
                             groups[static_cast<std::size_t>(i / group)] +
                         offset);
    return scales;
}

// A quantized weight, and the weight's shape after decoding.
struct Decoded {
    BitsWeight weight;
    tensor::Shape shape;
};

Result<Decoded> decoded_nf4(const tensor::StridedView& codes, const Parts& parts) {
    ROLL_TRY(const auto text, parts.bytes(kState, tensor::DType::U8, -1));
    ROLL_TRY(const Json state,
             parse_json({reinterpret_cast<const char*>(text.data()), text.size()}));
    if (!state.is_object()) return wrong(std::string(kState), "is not a JSON object");
    const Json shape = state.value("shape", Json()), block = state.value("blocksize", Json());
    const auto is_size = [](const Json& size) {
        return size.is_number_integer() && size > 0 && size < (std::int64_t{1} << 31U);
    };
    if (!shape.is_array() || shape.size() != 2 || !is_size(shape[0]) || !is_size(shape[1]) ||
        !is_size(block))
        return wrong(codes.info.name + std::string(kState),
                     "has shape " + shape.dump() + " and blocksize " + block.dump());
    Decoded decoded;
    decoded.weight.codes = codes.first;
    decoded.weight.columns = shape[1];
    decoded.weight.block = block;
    decoded.shape = {shape[0], shape[1]};
    const std::int64_t elements = decoded.shape[0] * decoded.shape[1];
    if (codes.info.dtype != tensor::DType::U8 ||
        tensor::volume(codes.info.shape) != blocks_of(elements, 2))
        return wrong(codes.info.name, std::string("is ") + name_of(codes.info.dtype) + " " +
                                          tensor::to_string(codes.info.shape) +
                                          "; it must be U8 with one byte per two weights of " +
                                          tensor::to_string(decoded.shape));
    ROLL_TRY(const auto map, parts.floats(".quant_map", 16));
    std::ranges::copy(map, decoded.weight.map.begin());
    ROLL_TRY(decoded.weight.scales,
             block_scales(parts, state, blocks_of(elements, decoded.weight.block)));
    return decoded;
}

Result<Decoded> decoded_int8(const tensor::StridedView& codes, const Parts& module) {
    const tensor::Shape& shape = codes.info.shape;
    if (codes.info.dtype != tensor::DType::I8 || shape.size() != 2)
        return wrong(codes.info.name, std::string("is ") + name_of(codes.info.dtype) + " " +
                                          tensor::to_string(shape) + "; it must be an I8 matrix");
    if (module.has(".weight_format")) {
        ROLL_TRY(const auto format, module.bytes(".weight_format", tensor::DType::U8, 1));
        if (format[0] != std::byte{0})
            return fail(
                ErrorCode::InvalidArgument,
                codes.info.name + " has the tiled weight_format of old versions of bitsandbytes",
                "save the model with a newer bitsandbytes, which writes rows");
    }
    Decoded decoded;
    decoded.weight.codes = codes.first;
    decoded.weight.columns = shape[1];
    decoded.shape = shape;
    ROLL_TRY(decoded.weight.scales, module.floats(".SCB", shape[0]));
    return decoded;
}

}  // namespace

bool is_bitsandbytes(const Json& hf_config) {
    const Json given = hf_config.value(kBitsConfig, Json());
    return given.is_object() && given.value("quant_method", Json()) == "bitsandbytes";
}

bool BitsTensors::take(const std::string& file, const tensor::StridedView& view) {
    const std::string& name = view.info.name;
    const bool is_part = std::ranges::any_of(
        kParts, [&](std::string_view ending) { return name.ends_with(ending); });
    if (is_part) return parts_.emplace(name, view), true;
    const bool is_codes =
        view.info.dtype == tensor::DType::U8 || view.info.dtype == tensor::DType::I8;
    if (!is_codes || !name.ends_with(kWeight)) return false;
    weights_.emplace(name, std::pair(file, view));
    return true;
}

Result<void> BitsTensors::attach(
    Source& source,
    const std::function<Result<void>(const std::string& file, const tensor::StridedView&)>& add) {
    for (const auto& [name, where] : weights_) {
        const auto& [file, codes] = where;
        const Parts parts(parts_, name);
        if (parts.has(".quant_state.bitsandbytes__fp4"))
            return fail(
                ErrorCode::InvalidArgument,
                name +
                    " is quantized by bitsandbytes to fp4; Roll reads only nf4 and 8-bit integers",
                "dequantize the model with model.dequantize() of transformers first");
        const Parts module(parts_, name.substr(0, name.size() - kWeight.size()));
        ROLL_TRY(Decoded decoded, codes.info.dtype == tensor::DType::I8
                                      ? decoded_int8(codes, module)
                                      : decoded_nf4(codes, parts));
        const tensor::StridedView whole{{name, tensor::DType::BF16, decoded.shape},
                                        tensor::row_major(decoded.shape),
                                        codes.first};
        const std::size_t before = source.tensors.size();
        ROLL_TRY_VOID(add(file, whole));
        if (source.tensors.size() == before) continue;
        source.tensors.back().in_memory = true;  // the decoded bytes are not pages of a file
        for (const Piece& piece : source.tensors.back().stored.pieces)
            source.overlay.bits.emplace(piece.hf, decoded.weight);
    }
    source.config.hf_config.erase(kBitsConfig);
    return {};
}

}  // namespace roll::convert
