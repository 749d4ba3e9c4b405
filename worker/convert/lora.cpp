#include "worker/convert/lora.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "common/tensor/vectorized.hpp"
#include "worker/convert/adapter.hpp"
#include "worker/convert/gather.hpp"
#include "worker/formats/peft.hpp"

namespace roll::convert {
namespace {

using formats::LoraModule;

std::vector<float> floats_of(const tensor::StridedView& view) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < view.info.shape[0]; ++i) {
        const std::int64_t columns = view.info.shape.size() > 1 ? view.info.shape[1] : 1;
        for (std::int64_t j = 0; j < columns; ++j) {
            const std::int64_t at =
                i * view.strides[0] + (view.info.shape.size() > 1 ? j * view.strides[1] : 0);
            values.push_back(static_cast<float>(tensor::load_float(
                view.info.dtype, view.first + at * tensor::bits_of(view.info.dtype) / 8)));
        }
    }
    return values;
}

std::vector<float> transposed(const std::vector<float>& values, std::int64_t rows,
                              std::int64_t columns) {
    std::vector<float> result(values.size());
    for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
            result[static_cast<std::size_t>(j * rows + i)] =
                values[static_cast<std::size_t>(i * columns + j)];
    return result;
}

bool is_finite(const std::vector<float>& values) {
    return std::all_of(values.begin(), values.end(), [](float one) { return std::isfinite(one); });
}

// Returns the change B A of a module, or (B A)^T = A^T B^T for embeddings and weights stored as
// [in, out].
Delta delta_of(const LoraModule& module) {
    Delta delta;
    delta.lora_rank = module.a.info.shape[0];
    std::vector<float> a = floats_of(module.a);
    std::vector<float> b = floats_of(module.b);
    const std::int64_t in = module.a.info.shape[1];
    const std::int64_t out = module.b.info.shape[0];
    const bool flip = module.embedding || module.transposed;
    delta.rows = flip ? in : out;
    delta.columns = flip ? out : in;
    delta.left = flip ? transposed(a, delta.lora_rank, in) : std::move(b);
    delta.right = flip ? transposed(b, out, delta.lora_rank) : std::move(a);
    delta.scale = static_cast<float>(module.scale);
    return delta;
}

// Sets DoRA's row scale m / |W + dW|. Reads the whole weight W once.
Result<void> set_row_scale(const Source& source, const LoraModule& module, int number,
                           Delta& delta) {
    const std::vector<float> magnitude = floats_of(*module.magnitude);
    if (module.embedding || module.transposed ||
        static_cast<std::int64_t>(magnitude.size()) != delta.rows)
        return fail(
            ErrorCode::InvalidArgument,
            "DoRA of " + module.module + " is not supported for embeddings and transposed weights");
    const std::vector<Stored> one{hf_layout(source.model)[static_cast<std::size_t>(number)]};
    ROLL_TRY(Plan plan, make_plan(source, one, tensor::DType::F32));
    plan.tensors[0].info.dtype = tensor::DType::F32;
    std::int64_t row = 0;
    std::vector<float> scale;
    const auto measure = [&](std::span<const std::byte> window) -> Result<void> {
        const auto* values = reinterpret_cast<const float*>(window.data());
        const std::int64_t rows =
            static_cast<std::int64_t>(window.size() / sizeof(float)) / delta.columns;
        std::vector<float> changed(values, values + rows * delta.columns);
        apply(delta, {row, 0, rows, delta.columns, delta.columns}, changed.data());
        for (std::int64_t i = 0; i < rows; ++i) {
            double sum = 0;
            for (std::int64_t j = 0; j < delta.columns; ++j) {
                const double value = changed[static_cast<std::size_t>(i * delta.columns + j)];
                sum += value * value;
            }
            scale.push_back(
                static_cast<float>(magnitude[static_cast<std::size_t>(row + i)] / std::sqrt(sum)));
        }
        row += rows;
        return {};
    };
    ROLL_TRY_VOID(gather(source, plan.tensors[0], measure));
    delta.row_scale = std::move(scale);
    return {};
}

Result<int> number_of(const Source& source, const std::string& tensor, const Shape& shape) {
    const auto found = source.model.number.find(tensor);
    if (found == source.model.number.end())
        return fail(ErrorCode::InvalidArgument,
                    "the adapter changes " + tensor + ", which the model lacks");
    const Shape& own = source.model.tensors[static_cast<std::size_t>(found->second)].shape;
    if (own != shape)
        return fail(ErrorCode::InvalidArgument, "the adapter's " + tensor + " has shape " +
                                                    tensor::to_string(shape) + ", the model's " +
                                                    tensor::to_string(own));
    return found->second;
}

// Replaces a tensor of the model by a tensor of the adapter. The model's tensor keeps its type; the
// adapter's values are rounded to this type once, after all other changes.
void replace_tensor(Source& source, int number, const tensor::StridedView& view, bool in_memory) {
    tensor::DType dtype = view.info.dtype;
    for (SourceTensor& one : source.tensors) {
        std::vector<Piece>& pieces = one.stored.pieces;
        if (std::erase_if(pieces, [&](const Piece& piece) { return piece.hf == number; }) > 0)
            dtype = one.view.info.dtype;
    }
    SourceTensor replacement{hf_layout(source.model)[static_cast<std::size_t>(number)], view,
                             in_memory};
    replacement.stored.file = "adapter";
    source.tensors.push_back(std::move(replacement));
    source.dtypes[number] = dtype;
}

// The operands of change[i, j] = sum over k of left[i, k] * right[k, j], computed for kRows rows at
// a time. multiply() keeps a block of columns in registers while it adds all k.
constexpr std::int64_t kRows = 4;
struct Product {
    const float* left = nullptr;  // [kRows, lora_rank]
    std::int64_t lora_rank = 0;
    const float* right = nullptr;  // [lora_rank, columns]; rows are `stride` elements apart
    std::int64_t stride = 0;
    std::int64_t columns = 0;
};
ROLL_VECTORIZED void multiply(const Product& of, float* change) {
    constexpr std::int64_t kBlock = 32;
    std::int64_t begin = 0;
    for (; begin + kBlock <= of.columns; begin += kBlock) {
        float block[kRows][kBlock] = {};  // an array that the compiler can keep in registers
        for (std::int64_t k = 0; k < of.lora_rank; ++k)
            for (std::int64_t i = 0; i < kRows; ++i)
                for (std::int64_t j = 0; j < kBlock; ++j)
                    block[i][j] +=
                        of.left[i * of.lora_rank + k] * of.right[k * of.stride + begin + j];
        for (std::int64_t i = 0; i < kRows; ++i)
            for (std::int64_t j = 0; j < kBlock; ++j)
                change[i * of.columns + begin + j] = block[i][j];
    }
    for (; begin < of.columns; ++begin)
        for (std::int64_t i = 0; i < kRows; ++i) {
            float sum = 0;
            for (std::int64_t k = 0; k < of.lora_rank; ++k)
                sum += of.left[i * of.lora_rank + k] * of.right[k * of.stride + begin];
            change[i * of.columns + begin] = sum;
        }
}

// Adds the change to each column: values[j] = (values[j] + change[j] * scale) * row_scale.
ROLL_VECTORIZED void add_scaled(const float* change, float scale, float row_scale,
                                std::int64_t columns, float* values) {
    for (std::int64_t j = 0; j < columns; ++j)
        values[j] = (values[j] + change[j] * scale) * row_scale;
}

void add_strided(const float* change, float scale, float row_scale, const ChangedBox& box,
                 float* values) {
    for (std::int64_t j = 0; j < box.columns; ++j) {
        float& value = values[j * box.column_stride];
        value = (value + change[j] * scale) * row_scale;
    }
}

// Returns true if all elements are finite: infinities and NaNs have all exponent bits set.
template <class Word>
ROLL_VECTORIZED bool no_full_exponent(const std::byte* elements, std::size_t bytes, Word exponent) {
    unsigned found = 0;
    for (std::size_t at = 0; at < bytes; at += sizeof(Word)) {
        Word word = 0;
        std::memcpy(&word, elements + at, sizeof(Word));
        found |= static_cast<unsigned>((word & exponent) == exponent);
    }
    return found == 0;
}

}  // namespace

bool all_finite(tensor::DType dtype, std::span<const std::byte> elements) {
    const std::byte* const first = elements.data();
    switch (dtype) {
        case tensor::DType::BF16:
            return no_full_exponent<std::uint16_t>(first, elements.size(), 0x7F80);
        case tensor::DType::F16:
            return no_full_exponent<std::uint16_t>(first, elements.size(), 0x7C00);
        case tensor::DType::F64:
            return no_full_exponent<std::uint64_t>(first, elements.size(), 0x7FF0000000000000);
        default: return no_full_exponent<std::uint32_t>(first, elements.size(), 0x7F800000);
    }
}

void apply(const Delta& delta, const ChangedBox& box, float* values) {
    std::vector<float> change(static_cast<std::size_t>(kRows * box.columns));
    std::vector<float> last(static_cast<std::size_t>(kRows * delta.lora_rank));
    for (std::int64_t first = 0; first < box.rows; first += kRows) {
        const std::int64_t rows = std::min(kRows, box.rows - first);
        const float* left = delta.left.data() + (box.row + first) * delta.lora_rank;
        if (rows < kRows) {  // pad the last rows with zeros, because multiply() needs kRows rows
            std::copy_n(left, rows * delta.lora_rank, last.begin());
            left = last.data();
        }
        multiply(
            {left, delta.lora_rank, delta.right.data() + box.column, delta.columns, box.columns},
            change.data());
        for (std::int64_t i = 0; i < rows; ++i) {
            const auto row = static_cast<std::size_t>(box.row + first + i);
            const float row_scale = delta.row_scale.empty() ? 1.0F : delta.row_scale[row];
            const float* const of_row = change.data() + i * box.columns;
            float* const out = values + (first + i) * box.row_stride;
            if (box.column_stride == 1)
                add_scaled(of_row, delta.scale, row_scale, box.columns, out);
            else
                add_strided(of_row, delta.scale, row_scale, box, out);
        }
    }
}

namespace {

Result<void> check_reversible(const formats::Adapter& adapter) {
    if (!adapter.whole.empty())
        return fail(ErrorCode::InvalidArgument,
                    "the adapter replaced " + adapter.whole.front().info.name +
                        " in the merge; only the base model has the original values");
    for (const LoraModule& module : adapter.modules)
        if (module.magnitude)
            return fail(ErrorCode::InvalidArgument,
                        module.module +
                            " has DoRA, which rescaled the rows: this adapter cannot be unmerged");
    return {};
}

}  // namespace

Result<void> attach_adapter(Source& source, const std::filesystem::path& directory,
                            Folding folding) {
    const std::vector<AdapterPlace> places = find_adapters(directory);
    if (places.empty())
        return fail(ErrorCode::NotFound, directory.string() + " holds no adapter_config.json");
    if (places.size() > 1 && places.front().name != "default")
        return fail(
            ErrorCode::InvalidArgument,
            directory.string() + " holds " + std::to_string(places.size()) + " adapters",
            "give the directory of one adapter, such as " + places.front().directory.string());
    ROLL_TRY(const formats::Adapter adapter, open_adapter(places.front(), source));
    if (folding == Folding::Out) ROLL_TRY_VOID(check_reversible(adapter));
    source.files.push_back(adapter.file.keep);
    for (const tensor::StridedView& view : adapter.whole) {
        ROLL_TRY(const int number, number_of(source, view.info.name, view.info.shape));
        if (!tensor::is_castable(view.info.dtype))
            return fail(ErrorCode::InvalidArgument,
                        "the adapter's " + view.info.name + " has a type that cannot be merged");
        replace_tensor(source, number, view, places.front().native);
    }
    for (const LoraModule& module : adapter.modules) {
        Delta delta = delta_of(module);
        if (folding == Folding::Out) delta.scale = -delta.scale;
        if (!is_finite(delta.left) || !is_finite(delta.right))
            return fail(ErrorCode::Corrupt,
                        "the adapter's " + module.module + " has non-finite values");
        ROLL_TRY(const int number,
                 number_of(source, module.module + ".weight", {delta.rows, delta.columns}));
        if (module.magnitude) ROLL_TRY_VOID(set_row_scale(source, module, number, delta));
        source.deltas.emplace(number, std::move(delta));
    }
    return {};
}

}  // namespace roll::convert
