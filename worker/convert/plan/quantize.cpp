#include "worker/convert/plan/quantize.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace roll::convert {
namespace {

constexpr std::int64_t kBlock = 128;
constexpr float kLargest = 448;  // largest F8_E4M3 value
constexpr const char* kSuffix = "_scale_inv";
// Invalid tensor number. A Copy with this number is read as stored: no scales or adapters apply.
constexpr int kAsStored = -1;

std::int64_t blocks(std::int64_t size, std::int64_t block) { return (size + block - 1) / block; }

// Returns the tensor numbers of all weights of linear modules in decoder layers.
std::set<int> of_linear_modules(const Source& source) {
    std::set<int> numbers;
    for (const families::NativeTensor& tensor : source.native) {
        const bool in_layer =
            tensor.stage == families::Stage::Layer || tensor.stage == families::Stage::Mtp;
        if (!in_layer || tensor.name.find(".linear_") == std::string::npos ||
            !tensor.name.ends_with(".weight"))
            continue;
        for (const families::HfTensor& one : tensor.sources)
            if (one.shape.size() == 2) numbers.insert(source.model.number.at(one.name));
    }
    return numbers;
}

bool travels(const Source& source, int hf) {
    return source.overlay.scales.contains(hf) && !source.overlay.deltas.contains(hf);
}

// Returns a target tensor for the unquantized weight, with elements of type `type`.
TargetTensor weight_of(const Source& source, const TargetTensor& target, tensor::DType type) {
    TargetTensor weight = target;
    weight.making = Making::Copies;
    weight.info.dtype = type;
    weight.info.shape =
        source.model.tensors[static_cast<std::size_t>(target.copies.front().hf)].shape;
    return weight;
}

// Returns the factor that maps the block's largest magnitude to the largest value of F8_E4M3.
float factor_of(const float* values, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    float largest = 0;
    for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
            largest = std::max(largest, std::fabs(values[i * stride + j]));
    return largest > 0 ? 1.0F / largest * kLargest : 1.0F;  // rounds twice, as torch does
}

// Quantizes one row of blocks: writes the scales and, unless `numbers` is null, the values.
void quantize(const float* values, std::int64_t rows, std::int64_t columns,
              std::int64_t block_columns, float* scales, std::uint8_t* numbers) {
    for (std::int64_t begin = 0; begin < columns; begin += block_columns) {
        const std::int64_t width = std::min(block_columns, columns - begin);
        const float factor = factor_of(values + begin, rows, width, columns);
        scales[begin / block_columns] = 1.0F / factor;
        for (std::int64_t i = 0; numbers != nullptr && i < rows; ++i)
            for (std::int64_t j = begin; j < begin + width; ++j)
                numbers[i * columns + j] = to_e4m3(values[i * columns + j] * factor);
    }
}

Result<void> travel(const Source& source, const TargetTensor& target, const Window& write) {
    const int hf = target.copies.front().hf;
    if (target.making == Making::Blocks) {
        TargetTensor weight = weight_of(source, target, target.info.dtype);
        for (Copy& copy : weight.copies) copy.hf = kAsStored;
        return gather_copies(source, weight, write);
    }
    const tensor::StridedView& view = source.overlay.scales.at(hf).scales;
    const auto size = static_cast<std::size_t>(tensor::bits_of(view.info.dtype) / 8);
    std::vector<std::byte> row(static_cast<std::size_t>(view.info.shape[1]) * size);
    for (std::int64_t i = 0; i < view.info.shape[0]; ++i) {
        for (std::int64_t j = 0; j < view.info.shape[1]; ++j)
            std::memcpy(&row[static_cast<std::size_t>(j) * size],
                        view.first + (i * view.strides[0] + j * view.strides[1]) *
                                         static_cast<std::int64_t>(size),
                        size);
        ROLL_TRY_VOID(write(row));
    }
    return {};
}

}  // namespace

std::uint8_t to_e4m3(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint8_t>(bits >> 24U & 0x80U);
    const float magnitude = std::fabs(value);
    if (std::isnan(value)) return sign | 0x7FU;
    if (magnitude >= kLargest) return sign | 0x7EU;
    // The result is subnormal: adding 2^14 rounds `magnitude` to a multiple of 2^-9.
    if (magnitude < 0x1p-6F)
        return sign |
               static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(magnitude + 0x1p14F) & 0xFFU);
    std::uint32_t rounded = std::bit_cast<std::uint32_t>(magnitude);
    rounded += 0x7FFFFU + (rounded >> 20U & 1U);  // rounds to three mantissa bits, ties to even
    constexpr std::uint32_t kBias = (127U - 7U) << 3U;
    return sign | static_cast<std::uint8_t>((rounded >> 20U) - kBias);
}

std::vector<Stored> with_scales(const Source& source, std::vector<Stored> layout) {
    std::set<int> wanted;
    for (const auto& [number, scale] : source.overlay.scales) wanted.insert(number);
    if (wanted.empty()) wanted = of_linear_modules(source);
    std::vector<Stored> result;
    for (Stored& stored : layout) {
        const bool is_whole = stored.pieces.size() == 1 && stored.shape.size() == 2;
        if (!is_whole || !wanted.contains(stored.pieces[0].hf)) {
            result.push_back(std::move(stored));
            continue;
        }
        const auto known = source.overlay.scales.find(stored.pieces[0].hf);
        stored.block_rows =
            known == source.overlay.scales.end() ? kBlock : known->second.block_rows;
        stored.block_columns =
            known == source.overlay.scales.end() ? kBlock : known->second.block_columns;
        stored.making = Making::Blocks;
        Stored scales = stored;
        scales.making = Making::Scales;
        scales.name += kSuffix;
        scales.shape = {blocks(stored.shape[0], stored.block_rows),
                        blocks(stored.shape[1], stored.block_columns)};
        result.push_back(std::move(stored));
        result.push_back(std::move(scales));
    }
    return result;
}

Json quantization_of(const Source& source, const Plan& plan) {
    if (!source.overlay.quantization.is_null()) return source.overlay.quantization;
    // names of the modules whose weights are not quantized, including modules with packed experts
    std::set<std::string> plain;
    for (const TargetTensor& target : plan.tensors)
        if (target.making == Making::Copies && target.info.shape.size() >= 2)
            plain.insert(target.info.name.substr(0, target.info.name.rfind('.')));
    return {{"quant_method", "fp8"},
            {"fmt", "e4m3"},
            {"activation_scheme", "dynamic"},
            {"weight_block_size", {kBlock, kBlock}},
            {"modules_to_not_convert", plain}};
}

Result<void> gather_blocks(const Source& source, const TargetTensor& target, const Window& write) {
    if (travels(source, target.copies.front().hf)) return travel(source, target, write);
    const TargetTensor weight = weight_of(source, target, tensor::DType::F32);
    const std::int64_t rows = weight.info.shape[0];
    const std::int64_t columns = weight.info.shape[1];
    if (rows == 0 || columns == 0) return {};
    const bool numbers = target.making == Making::Blocks;
    std::vector<float> values(
        static_cast<std::size_t>(std::min(rows, target.block_rows) * columns));
    std::vector<float> scales(static_cast<std::size_t>(blocks(columns, target.block_columns)));
    std::vector<std::uint8_t> eight(numbers ? values.size() : 0);
    for (std::int64_t begin = 0; begin < rows; begin += target.block_rows) {
        const std::int64_t end = std::min(rows, begin + target.block_rows);
        gather_rows(source, weight, begin, end, reinterpret_cast<std::byte*>(values.data()));
        const auto elements = static_cast<std::size_t>((end - begin) * columns);
        if (!all_finite(tensor::DType::F32, std::as_bytes(std::span(values).first(elements))))
            return fail(
                ErrorCode::Corrupt,
                weight.info.name +
                    " has non-finite values, which cannot be quantized; choose another --dtype");
        quantize(values.data(), end - begin, columns, target.block_columns, scales.data(),
                 numbers ? eight.data() : nullptr);
        ROLL_TRY_VOID(write(numbers ? std::as_bytes(std::span(eight).first(elements))
                                    : std::as_bytes(std::span(scales))));
    }
    release(source, weight);
    return {};
}

Result<void> check_blocks(const Source& source, const Plan& plan, const Source& written) {
    std::map<std::string, const tensor::StridedView*> views;
    for (const SourceTensor& one : written.tensors) views[one.stored.name] = &one.view;
    for (const auto& [number, scale] : written.overlay.scales)
        views[written.model.tensors[static_cast<std::size_t>(number)].name + kSuffix] =
            &scale.scales;
    for (const TargetTensor& target : plan.tensors) {
        if (target.making == Making::Copies) continue;
        const auto differs = [&] {
            return fail(ErrorCode::Corrupt, "the written " + target.info.name +
                                                " differs from the source; convert again");
        };
        const auto found = views.find(target.info.name);
        if (found == views.end() || found->second->info.dtype != target.info.dtype ||
            found->second->info.shape != target.info.shape)
            return differs();
        const std::byte* at = found->second->first;
        ROLL_TRY_VOID(gather_blocks(source, target, [&](auto window) -> Result<void> {
            if (std::memcmp(at, window.data(), window.size()) != 0) return differs();
            at += window.size();
            return {};
        }));
    }
    return {};
}

}  // namespace roll::convert
