#include "worker/convert/adapter/merge.hpp"

#include <algorithm>
#include <cmath>

#include "worker/convert/adapter/adapter.hpp"
#include "worker/convert/plan/gather.hpp"
#include "worker/formats/peft.hpp"

namespace roll::convert {
namespace {

using formats::LoraModule;

std::vector<float> floats_of(const tensor::StridedView& view) {
    const tensor::DType dtype = view.info.dtype;
    const std::int64_t size = tensor::bits_of(dtype) / 8;
    const std::int64_t rows = view.info.shape[0];
    const std::int64_t columns = view.info.shape.size() > 1 ? view.info.shape[1] : 1;
    const std::int64_t stride = view.info.shape.size() > 1 ? view.strides[1] : 1;
    // number of elements that one call of cast() converts: a whole row if the row's elements are
    // contiguous
    const std::int64_t run = stride == 1 ? columns : 1;
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    std::span<std::byte> to = std::as_writable_bytes(std::span(values));
    for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; j += run) {
            const std::byte* const first = view.first + (i * view.strides[0] + j * stride) * size;
            const auto bytes = static_cast<std::size_t>(run) * sizeof(float);
            tensor::cast(dtype, {first, static_cast<std::size_t>(run * size)}, tensor::DType::F32,
                         to.first(bytes));
            to = to.subspan(bytes);
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

// Returns the change B A of a module. For embeddings and for weights stored as [in, out], returns
// (B A)^T = A^T B^T.
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
    delta.right_tiles = in_tiles(flip ? transposed(b, out, delta.lora_rank) : std::move(a),
                                 delta.lora_rank, delta.columns);
    delta.scale = static_cast<float>(module.scale);
    return delta;
}

// Sets DoRA's row scale m / |W + dW|, where m is the module's magnitude. Reads the whole weight W
// once.
Result<void> set_row_scale(const Source& source, const LoraModule& module, int number,
                           Delta& delta) {
    const std::vector<float> magnitude = floats_of(*module.magnitude);
    if (module.embedding || module.transposed ||
        static_cast<std::int64_t>(magnitude.size()) != delta.rows)
        return fail(ErrorCode::InvalidArgument,
                    "DoRA of " + module.module +
                        " is not supported for embeddings and transposed weights; merge this "
                        "adapter with PEFT (merge_and_unload())");
    const std::vector<Stored> one{whole_tensor(source.model, number)};
    ROLL_TRY(Plan plan, make_plan(source, one, tensor::DType::F32));
    plan.tensors[0].info.dtype = tensor::DType::F32;
    std::int64_t row = 0;
    std::vector<float> scale;
    const auto measure = [&](std::span<const std::byte> window) -> Result<void> {
        std::vector<float> changed(window.size() / sizeof(float));
        const std::int64_t rows = static_cast<std::int64_t>(changed.size()) / delta.columns;
        const ChangedBox box{row, 0, rows, delta.columns, delta.columns};
        apply(delta, box, tensor::DType::F32, {window.data(), delta.columns},
              reinterpret_cast<std::byte*>(changed.data()));
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

// Appends elements [begin, begin + count) of `from`, each times `factor`.
void append_scaled(std::vector<float>& to, const std::vector<float>& from, std::size_t begin,
                   std::size_t count, float factor = 1) {
    for (std::size_t i = begin; i < begin + count; ++i) to.push_back(from[i] * factor);
}

// Adds the change of a further adapter to a tensor's change. The sum s B A + s' B' A' is stored as
// a single product [s B, s' B'] [A; A']: B' is to the right of B, and A' is below A.
void add_to(Delta& sum, const Delta& more) {
    constexpr std::size_t kTile = 32;
    const auto r = static_cast<std::size_t>(sum.lora_rank);
    const auto k = static_cast<std::size_t>(more.lora_rank);
    std::vector<float> left, tiles;
    for (std::size_t row = 0; row < static_cast<std::size_t>(sum.rows); ++row) {
        append_scaled(left, sum.left, row * r, r, sum.scale);
        append_scaled(left, more.left, row * k, k, more.scale);
    }
    for (std::size_t tile = 0; tile < sum.right_tiles.size() / (r * kTile); ++tile) {
        append_scaled(tiles, sum.right_tiles, tile * r * kTile, r * kTile);
        append_scaled(tiles, more.right_tiles, tile * k * kTile, k * kTile);
    }
    sum.left = std::move(left);
    sum.right_tiles = std::move(tiles);
    sum.lora_rank += more.lora_rank;
    sum.scale = 1;
}

Result<int> number_of(const Source& source, const std::string& tensor, const Shape& shape) {
    const auto found = source.model.number.find(tensor);
    if (found == source.model.number.end())
        return fail(ErrorCode::InvalidArgument,
                    "the adapter changes " + tensor +
                        ", but the model has no such tensor; give the base model of this adapter");
    const Shape& own = source.model.tensors[static_cast<std::size_t>(found->second)].shape;
    if (own != shape)
        return fail(ErrorCode::InvalidArgument, "the adapter's " + tensor + " has shape " +
                                                    tensor::to_string(shape) + ", the model's " +
                                                    tensor::to_string(own));
    return found->second;
}

// Replaces a tensor of the model by a tensor of the adapter. The data type of the model's tensor
// stays the same. The adapter's values are rounded to this type once, after all other changes.
void replace_tensor(Source& source, int number, const tensor::StridedView& view, bool in_memory) {
    tensor::DType dtype = view.info.dtype;
    for (SourceTensor& one : source.tensors) {
        std::vector<Piece>& pieces = one.stored.pieces;
        if (std::erase_if(pieces, [&](const Piece& piece) { return piece.hf == number; }) > 0)
            dtype = one.view.info.dtype;
    }
    SourceTensor replacement{whole_tensor(source.model, number), view, in_memory};
    replacement.stored.file = "adapter";
    source.tensors.push_back(std::move(replacement));
    source.overlay.dtypes[number] = dtype;
}

Result<void> check_reversible(const formats::Adapter& adapter) {
    if (!adapter.whole.empty())
        return fail(ErrorCode::InvalidArgument,
                    "the adapter replaced " + adapter.whole.front().info.name +
                        " when it was merged; only the base model has the original values, so use "
                        "the base model itself");
    for (const LoraModule& module : adapter.modules)
        if (module.magnitude)
            return fail(ErrorCode::InvalidArgument,
                        module.module +
                            " has DoRA, which rescaled the rows of the weight; this cannot be "
                            "undone, so use the base model itself");
    return {};
}

}  // namespace

Result<void> attach_adapter(Source& source, const std::filesystem::path& directory,
                            Folding folding) {
    const std::vector<AdapterPlace> places = find_adapters(directory);
    if (places.empty())
        return fail(ErrorCode::NotFound,
                    directory.string() +
                        " contains no adapter_config.json; give the directory of an adapter");
    if (places.size() > 1 && places.front().name != "default")
        return fail(
            ErrorCode::InvalidArgument,
            directory.string() + " holds " + std::to_string(places.size()) + " adapters",
            "give the directory of one adapter, such as " + places.front().directory.string());
    ROLL_TRY(const formats::Adapter adapter, open_adapter(places.front(), source));
    if (folding == Folding::Out) ROLL_TRY_VOID(check_reversible(adapter));
    source.storage.files.push_back(adapter.file.keep);
    for (const tensor::StridedView& view : adapter.whole) {
        ROLL_TRY(const int number, number_of(source, view.info.name, view.info.shape));
        if (!tensor::is_castable(view.info.dtype))
            return fail(
                ErrorCode::InvalidArgument,
                "the adapter's " + view.info.name + " has an element type that cannot be merged");
        replace_tensor(source, number, view, places.front().native);
    }
    for (const LoraModule& module : adapter.modules) {
        Delta delta = delta_of(module);
        if (folding == Folding::Out) delta.scale = -delta.scale;
        if (!is_finite(delta.left) || !is_finite(delta.right_tiles))
            return fail(ErrorCode::Corrupt,
                        "the adapter's " + module.module + " has non-finite values");
        ROLL_TRY(const int number,
                 number_of(source, module.module + ".weight", {delta.rows, delta.columns}));
        if (module.magnitude) ROLL_TRY_VOID(set_row_scale(source, module, number, delta));
        const auto [before, is_first] = source.overlay.deltas.try_emplace(number, std::move(delta));
        if (is_first) continue;
        if (module.magnitude || !before->second.row_scale.empty())
            return fail(
                ErrorCode::InvalidArgument,
                "two adapters change " + module.module +
                    ", and at least one of these two adapters has DoRA; the second adapter is in " +
                    directory.string(),
                "merge one adapter, then merge the other into the result");
        add_to(before->second, delta);
    }
    return {};
}

}  // namespace roll::convert
