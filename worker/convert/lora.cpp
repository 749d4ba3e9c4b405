#include "worker/convert/lora.hpp"

#include <cmath>
#include <set>

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

// B A, or (B A)^T = A^T B^T for embeddings and weights kept as [in, out].
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

// DoRA: m / |W + dW|, by row. Reads the whole tensor once.
Result<void> set_row_scale(const Source& source, const LoraModule& module, int number,
                           Delta& delta) {
    const std::vector<float> magnitude = floats_of(*module.magnitude);
    if (module.embedding || module.transposed ||
        static_cast<std::int64_t>(magnitude.size()) != delta.rows)
        return fail(ErrorCode::InvalidArgument,
                    "DoRA of " + module.module + " is of a kind that is not merged");
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
        apply(delta, row, 0, rows, delta.columns, changed.data(), delta.columns);
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
                    "the adapter changes " + tensor + ", which the model does not have");
    const Shape& own = source.model.tensors[static_cast<std::size_t>(found->second)].shape;
    if (own != shape)
        return fail(ErrorCode::InvalidArgument, "the adapter's " + tensor + " has shape " +
                                                    tensor::to_string(shape) + ", the model's " +
                                                    tensor::to_string(own));
    return found->second;
}

// The model's own copies of a tensor give way to the adapter's. It keeps the type that it had, but
// is rounded to it only once, after everything else.
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

}  // namespace

void apply(const Delta& delta, std::int64_t row, std::int64_t column, std::int64_t rows,
           std::int64_t columns, float* values, std::int64_t stride) {
    std::vector<float> change(static_cast<std::size_t>(columns));
    for (std::int64_t i = 0; i < rows; ++i) {
        std::fill(change.begin(), change.end(), 0.0F);
        const float* const left = delta.left.data() + (row + i) * delta.lora_rank;
        for (std::int64_t k = 0; k < delta.lora_rank; ++k) {
            const float factor = left[k];
            const float* const right = delta.right.data() + k * delta.columns + column;
            for (std::int64_t j = 0; j < columns; ++j) change[j] += factor * right[j];
        }
        float* const out = values + i * stride;
        const float scale =
            delta.row_scale.empty() ? 1.0F : delta.row_scale[static_cast<std::size_t>(row + i)];
        for (std::int64_t j = 0; j < columns; ++j)
            out[j] = (out[j] + change[j] * delta.scale) * scale;
    }
}

Result<void> attach_adapter(Source& source, const std::filesystem::path& directory) {
    const std::vector<AdapterPlace> places = find_adapters(directory);
    if (places.empty())
        return fail(ErrorCode::NotFound, directory.string() + " holds no adapter_config.json");
    if (places.size() > 1 && places.front().name != "default")
        return fail(ErrorCode::InvalidArgument,
                    directory.string() + " holds " + std::to_string(places.size()) + " adapters",
                    "name one: " + places.front().directory.string());
    ROLL_TRY(const formats::Adapter adapter, open_adapter(places.front(), source));
    source.files.push_back(adapter.file.keep);
    for (const tensor::StridedView& view : adapter.whole) {
        ROLL_TRY(const int number, number_of(source, view.info.name, view.info.shape));
        if (!tensor::is_castable(view.info.dtype))
            return fail(ErrorCode::InvalidArgument,
                        "the adapter's " + view.info.name + " is of a kind that is not merged");
        replace_tensor(source, number, view, places.front().native);
    }
    for (const LoraModule& module : adapter.modules) {
        Delta delta = delta_of(module);
        ROLL_TRY(const int number,
                 number_of(source, module.module + ".weight", {delta.rows, delta.columns}));
        if (module.magnitude) ROLL_TRY_VOID(set_row_scale(source, module, number, delta));
        source.deltas.emplace(number, std::move(delta));
    }
    return {};
}

}  // namespace roll::convert
