#include "worker/convert/plan/rows.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include <sys/mman.h>
#include <unistd.h>

namespace roll::convert {
namespace {

// Returns the size of `elements` elements in bytes. The size must be a whole number of bytes. Plans
// guarantee this for types smaller than a byte.
std::int64_t bytes_of(tensor::DType dtype, std::int64_t elements = 1) {
    return elements * tensor::bits_of(dtype) / 8;
}

// A copy of a block from one strided tensor to another. Strides are in elements.
struct Move {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::vector<std::int64_t> from_strides;
    std::vector<std::int64_t> to_strides;
    Shape size;
    tensor::DType from_type = tensor::DType::F32;
    tensor::DType to_type = tensor::DType::F32;
    double add = 0;
};

// Copies one element and adds the move's constant as torch does: computes in fp32 (fp64 for fp64
// tensors) and rounds to the tensor's type.
void add_one(const Move& move, const std::byte* source, std::byte* target) {
    const double value = tensor::load_float(move.from_type, source);
    const auto from = static_cast<std::size_t>(bytes_of(move.from_type));
    const auto to = static_cast<std::size_t>(bytes_of(move.to_type));
    std::array<std::byte, sizeof(double)> rounded{};
    if (move.from_type == tensor::DType::F64) {
        const std::array sum{value + move.add};
        std::memcpy(rounded.data(), sum.data(), sizeof(double));
    } else {
        const std::array sum{static_cast<float>(value) + static_cast<float>(move.add)};
        tensor::cast(tensor::DType::F32, std::as_bytes(std::span(sum)), move.from_type,
                     std::span(rounded).first(from));
    }
    tensor::cast(move.from_type, std::span(rounded).first(from), move.to_type, {target, to});
}

void move_run(const Move& move, std::int64_t from, std::int64_t to, std::int64_t count) {
    const std::byte* const source = move.from + bytes_of(move.from_type, from);
    std::byte* const target = move.to + bytes_of(move.to_type, to);
    const auto from_bytes = static_cast<std::size_t>(bytes_of(move.from_type, count));
    const auto to_bytes = static_cast<std::size_t>(bytes_of(move.to_type, count));
    if (move.add != 0) {
        for (std::int64_t i = 0; i < count; ++i)
            add_one(move, source + bytes_of(move.from_type, i), target + bytes_of(move.to_type, i));
    } else if (move.from_type == move.to_type) {
        std::memcpy(target, source, from_bytes);
    } else {
        tensor::cast(move.from_type, {source, from_bytes}, move.to_type, {target, to_bytes});
    }
}

// Copies the last two dims in tiles that fit into the cache. Used for transposed copies: one of the
// dims is contiguous in the source, the other in the target.
template <class Element>
void move_tiles(const Move& move, std::size_t dim, const std::byte* from, std::byte* to) {
    constexpr std::int64_t kTile = 32;
    const std::int64_t rows = move.size[dim];
    const std::int64_t columns = move.size[dim + 1];
    for (std::int64_t i = 0; i < rows; i += kTile)
        for (std::int64_t j = 0; j < columns; j += kTile)
            for (std::int64_t row = i; row < std::min(i + kTile, rows); ++row)
                for (std::int64_t column = j; column < std::min(j + kTile, columns); ++column) {
                    const auto source =
                        static_cast<std::ptrdiff_t>(sizeof(Element)) *
                        (row * move.from_strides[dim] + column * move.from_strides[dim + 1]);
                    const auto target =
                        static_cast<std::ptrdiff_t>(sizeof(Element)) *
                        (row * move.to_strides[dim] + column * move.to_strides[dim + 1]);
                    std::memcpy(to + target, from + source, sizeof(Element));
                }
}

void move_turned(const Move& move, std::size_t dim, std::int64_t from, std::int64_t to) {
    const std::int64_t size = bytes_of(move.from_type);
    const std::byte* const source = move.from + from * size;
    std::byte* const target = move.to + to * size;
    if (size == 1) return move_tiles<std::uint8_t>(move, dim, source, target);
    if (size == 2) return move_tiles<std::uint16_t>(move, dim, source, target);
    if (size == 4) return move_tiles<std::uint32_t>(move, dim, source, target);
    move_tiles<std::uint64_t>(move, dim, source, target);
}

void move_dims(const Move& move, std::size_t dim, std::size_t run_dim, std::int64_t run,
               std::int64_t from, std::int64_t to) {
    if (dim == run_dim) return move_run(move, from, to, run);
    const bool apart = run == 1 && dim + 2 == run_dim && move.from_type == move.to_type;
    if (apart && move.add == 0) return move_turned(move, dim, from, to);
    for (std::int64_t i = 0; i < move.size[dim]; ++i)
        move_dims(move, dim + 1, run_dim, run, from + i * move.from_strides[dim],
                  to + i * move.to_strides[dim]);
}

// Executes a copy. Trailing dims that are contiguous on both sides are copied as one run.
void carry_out(const Move& move) {
    std::size_t dim = move.size.size();
    std::int64_t run = 1;
    while (dim > 0 && (move.size[dim - 1] == 1 ||
                       (move.from_strides[dim - 1] == run && move.to_strides[dim - 1] == run))) {
        run *= move.size[dim - 1];
        --dim;
    }
    // A dim of size 1 needs no loop, so its stride does not matter.
    move_dims(move, 0, dim, run, 0, 0);
}

const std::byte* address_of(const tensor::StridedView& view, const Shape& point) {
    std::int64_t offset = 0;
    for (std::size_t dim = 0; dim < point.size(); ++dim) offset += point[dim] * view.strides[dim];
    return view.first + bytes_of(view.info.dtype, offset);
}

// Releases the pages of a mapped file that hold the tensor. If the pages are needed again, the
// kernel reads them from the file.
void release(const Source& source, const SourceTensor& tensor) {
    if (!source.storage.mapped || tensor.in_memory) return;
    const tensor::StridedView& view = tensor.view;
    std::int64_t last = 0;
    for (std::size_t dim = 0; dim < view.strides.size(); ++dim)
        last += (view.info.shape[dim] - 1) * view.strides[dim];
    if (last < 0) return;
    release_pages({view.first, static_cast<std::size_t>(bytes_of(view.info.dtype, last + 1))});
}

// Clips `copy` to the indices [begin, end) of dim `axis` of its target, and makes the indices
// relative to `begin`. Returns false if nothing is left. A copy with step s along `axis` has only
// every s-th index.
bool clip(Copy& copy, std::size_t axis, std::int64_t begin, std::int64_t end) {
    if (copy.target_begin.empty()) return true;
    const std::int64_t place = copy.target_begin[axis];
    std::size_t dim = 0;
    while (dim < copy.size.size() && copy.target_placing.axis(dim) != axis) ++dim;
    if (dim == copy.size.size()) {  // the copy has only one index along `axis`
        copy.target_begin[axis] -= begin;
        return place >= begin && place < end;
    }
    const std::int64_t step = copy.target_placing.step(dim);
    const auto count_before = [&](std::int64_t index) {
        const std::int64_t count = index <= place ? 0 : (index - place + step - 1) / step;
        return std::min(count, copy.size[dim]);
    };
    const std::int64_t first = count_before(begin);
    const std::int64_t last = count_before(end);
    copy.target_begin[axis] += first * step - begin;
    copy.source_begin[copy.source_placing.axis(dim)] += first * copy.source_placing.step(dim);
    if (!copy.hf_begin.empty()) copy.hf_begin[dim] += first;
    copy.size[dim] = last - first;
    return first < last;
}

Move move_of(const Copy& copy, const tensor::StridedView& view,
             const std::vector<std::int64_t>& strides, tensor::DType type, std::byte* buffer) {
    Move move{
        address_of(view, copy.source_begin), nullptr, {}, {}, copy.size, view.info.dtype, type};
    for (std::size_t dim = 0; dim < copy.size.size(); ++dim) {
        move.from_strides.push_back(view.strides[copy.source_placing.axis(dim)] *
                                    copy.source_placing.step(dim));
        move.to_strides.push_back(strides[copy.target_placing.axis(dim)] *
                                  copy.target_placing.step(dim));
    }
    std::int64_t offset = 0;
    for (std::size_t dim = 0; dim < strides.size(); ++dim)
        offset += copy.target_begin[dim] * strides[dim];
    move.to = buffer + bytes_of(type, offset);
    return move;
}

// Returns true if an adapter's change can be computed from the elements of `copy` directly into a
// target of type `type`.
bool is_changed_directly(const Source& source, const Copy& copy, tensor::DType type) {
    return source.overlay.deltas.contains(copy.hf) && !source.overlay.scales.contains(copy.hf) &&
           !source.overlay.bits.contains(copy.hf) && copy.add == 0 && copy.hf_begin.size() == 2 &&
           source.tensors[copy.source].view.info.dtype == type && is_changed_in_place(type);
}

// Fills the buffer with rows [begin, end) of a target tensor, as elements of `type`.
void fill(const Source& source, const TargetTensor& target, std::int64_t begin, std::int64_t end,
          tensor::DType type, std::byte* buffer) {
    const std::vector<std::int64_t> strides = tensor::row_major(target.info.shape);
    for (Copy copy : target.copies) {
        if (!clip(copy, 0, begin, end)) continue;
        Move move = move_of(copy, source.tensors[copy.source].view, strides, type, buffer);
        move.add = copy.add;
        const auto scale = source.overlay.scales.find(copy.hf);
        const auto delta = source.overlay.deltas.find(copy.hf);
        const auto bits = source.overlay.bits.find(copy.hf);
        const bool changes = scale != source.overlay.scales.end() ||
                             delta != source.overlay.deltas.end() ||
                             bits != source.overlay.bits.end();
        if (!changes || copy.hf_begin.empty()) {
            carry_out(move);
            continue;
        }
        const ChangedBox box{copy.hf_begin[0], copy.hf_begin[1],   move.size[0],
                             move.size[1],     move.to_strides[0], move.to_strides[1]};
        if (is_changed_directly(source, copy, type)) {
            apply(delta->second, box, type, {move.from, move.from_strides[0], move.from_strides[1]},
                  move.to);
            continue;
        }
        if (bits != source.overlay.bits.end())
            decode(bits->second, box, reinterpret_cast<float*>(move.to));  // NOLINT: F32
        else
            carry_out(move);
        if (scale != source.overlay.scales.end())
            apply(scale->second, box, reinterpret_cast<float*>(move.to));  // NOLINT: F32
        if (delta != source.overlay.deltas.end())
            apply(delta->second, box, tensor::DType::F32,
                  {move.to, box.row_stride, box.column_stride}, move.to);
    }
}

bool is_changed(const Source& source, const Copy& copy) {
    return source.overlay.deltas.contains(copy.hf) || source.overlay.scales.contains(copy.hf) ||
           source.overlay.bits.contains(copy.hf);
}

// Returns true if the tensor needs no intermediate fp32 values.
bool is_filled_directly(const Source& source, const TargetTensor& target) {
    return std::all_of(target.copies.begin(), target.copies.end(), [&](const Copy& copy) {
        return !is_changed(source, copy) || is_changed_directly(source, copy, target.info.dtype);
    });
}

bool is_merged(const Source& source, const TargetTensor& target) {
    return std::any_of(target.copies.begin(), target.copies.end(),
                       [&](const Copy& copy) { return source.overlay.deltas.contains(copy.hf); });
}

Result<void> check_merged(const TargetTensor& target, std::span<const std::byte> bytes) {
    if (all_finite(target.info.dtype, bytes)) return {};
    return fail(ErrorCode::Corrupt,
                target.info.name + ", merged with the adapter, has non-finite values in " +
                    name_of(target.info.dtype),
                "if the adapter's own values are finite, use --dtype fp32");
}

// Returns the number of rows that are computed at a time. These rows fit into the processor's
// cache.
std::int64_t cached_rows(const TargetTensor& target) {
    constexpr std::int64_t kCached = std::int64_t{1} << 15U;  // elements that fit into the cache
    constexpr std::int64_t kRowsMin = 8;
    return std::max(kCached / tensor::row_major(target.info.shape)[0], kRowsMin);
}

// Like fill(), but for a tensor whose values are changed by block scales or by an adapter, or that
// bitsandbytes has quantized. Computes
// in fp32 and rounds once.
void fill_changed(const Source& source, const TargetTensor& target, std::int64_t begin,
                  std::int64_t end, std::byte* buffer) {
    const std::int64_t row = tensor::row_major(target.info.shape)[0];
    const std::int64_t step = std::min(cached_rows(target), end - begin);
    const auto values =
        std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(step * row));
    for (std::int64_t first = begin; first < end; first += step) {
        const std::int64_t last = std::min(first + step, end);
        const std::span<std::byte> wide = std::as_writable_bytes(
            std::span(values.get(), static_cast<std::size_t>((last - first) * row)));
        fill(source, target, first, last, tensor::DType::F32, wide.data());
        const auto bytes =
            static_cast<std::size_t>(bytes_of(target.info.dtype, (last - first) * row));
        tensor::cast(tensor::DType::F32, wide, target.info.dtype, {buffer, bytes});
        buffer += bytes;
    }
}

// Like gather_rows(), but for a tensor that an adapter changes. Computes a few rows at a time, and
// checks that their values are finite while they are in the processor's cache.
Result<void> gather_merged(const Source& source, const TargetTensor& target, std::int64_t begin,
                           std::int64_t end, std::span<std::byte> to) {
    const auto row_bytes = to.size() / static_cast<std::size_t>(end - begin);
    const std::int64_t step = cached_rows(target);
    for (std::int64_t first = begin; first < end; first += step) {
        const std::int64_t last = std::min(first + step, end);
        const std::size_t bytes = static_cast<std::size_t>(last - first) * row_bytes;
        gather_rows(source, target, first, last, to.data());
        ROLL_TRY_VOID(check_merged(target, to.first(bytes)));
        to = to.subspan(bytes);
    }
    return {};
}

}  // namespace

void gather_rows(const Source& source, const TargetTensor& target, std::int64_t begin,
                 std::int64_t end, std::byte* to) {
    if (target.padded) {
        const std::int64_t row = tensor::row_major(target.info.shape)[0];
        std::fill_n(to, bytes_of(target.info.dtype, (end - begin) * row), std::byte{0});
    }
    if (is_filled_directly(source, target)) {
        fill(source, target, begin, end, target.info.dtype, to);
    } else {
        fill_changed(source, target, begin, end, to);
    }
}

TargetTensor block_of(const TargetTensor& target, const Shape& begin, const Shape& size) {
    TargetTensor block = target;
    block.info.shape = size;
    std::erase_if(block.copies, [&](Copy& copy) {
        for (std::size_t axis = 0; axis < size.size(); ++axis)
            if (!clip(copy, axis, begin[axis], begin[axis] + size[axis])) return true;
        return false;
    });
    return block;
}

std::int64_t bytes_read(const Source& source, const TargetTensor& target) {
    std::int64_t bytes = 0;
    for (const Copy& copy : target.copies)
        bytes += bytes_of(source.tensors[copy.source].view.info.dtype, tensor::volume(copy.size));
    return bytes;
}

void release_pages(std::span<const std::byte> bytes) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
    const std::uintptr_t begin = first / page * page;
    ::madvise(reinterpret_cast<void*>(begin),  // NOLINT: pointer from an address
              first + bytes.size() - begin, MADV_DONTNEED);
}

void release(const Source& source, const TargetTensor& target) {
    for (const Copy& copy : target.copies) release(source, source.tensors[copy.source]);
}

Result<void> gather_copies(const Source& source, const TargetTensor& target, const Window& write) {
    const std::int64_t rows = target.info.shape.empty() ? 1 : target.info.shape[0];
    ROLL_TRY(const std::int64_t total, tensor::byte_count(target.info.dtype, target.info.shape));
    if (total == 0) return {};
    const std::int64_t row_bytes = total / rows;
    const std::int64_t window = std::clamp<std::int64_t>(kWindowBytes / row_bytes, 1, rows);
    const auto buffer =
        std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(window * row_bytes));
    const bool merges = is_merged(source, target);
    for (std::int64_t begin = 0; begin < rows; begin += window) {
        const std::int64_t end = std::min(rows, begin + window);
        const std::span<std::byte> rows_read(buffer.get(),
                                             static_cast<std::size_t>((end - begin) * row_bytes));
        if (merges) {
            ROLL_TRY_VOID(gather_merged(source, target, begin, end, rows_read));
        } else {
            gather_rows(source, target, begin, end, rows_read.data());
        }
        ROLL_TRY_VOID(write(rows_read));
    }
    release(source, target);
    return {};
}

Result<void> compare(const Source& source, const Comparison& comparison) {
    const SourceTensor& first = source.tensors[comparison.first];
    const SourceTensor& second = source.tensors[comparison.second];
    const auto differ = [&] {
        if (second.stored.optional)
            return fail(ErrorCode::Corrupt,
                        second.stored.file + ": " + second.stored.name + " differs from " +
                            first.stored.name + ", although the two must be equal",
                        "the family file says that one of these tensors is a copy of the other; "
                        "Megatron cannot store a model in which they differ");
        return fail(ErrorCode::Corrupt, second.stored.file + ": " + second.stored.name +
                                            " differs from the same part of the model in " +
                                            first.stored.file + " (" + first.stored.name + ")");
    };
    if (first.view.info.dtype != second.view.info.dtype) return differ();
    TargetTensor one;
    one.info.dtype = first.view.info.dtype;
    one.info.shape = comparison.size;
    TargetTensor other = one;
    const Shape zero(comparison.size.size(), 0);
    // Invalid tensor number. A Copy with this number is read as stored: no adapter applies.
    constexpr int kNoTensor = -1;
    one.copies = {{comparison.first, comparison.first_begin, zero, comparison.size, kNoTensor, {}}};
    other.copies = {
        {comparison.second, comparison.second_begin, zero, comparison.size, kNoTensor, {}}};
    const std::int64_t rows = comparison.size.empty() ? 1 : comparison.size[0];
    ROLL_TRY(const std::int64_t total, tensor::byte_count(one.info.dtype, comparison.size));
    if (total == 0) return {};
    const std::int64_t row_bytes = total / rows;
    const std::int64_t window = std::clamp<std::int64_t>(kWindowBytes / row_bytes, 1, rows);
    std::vector<std::byte> a(static_cast<std::size_t>(window * row_bytes));
    std::vector<std::byte> b(a.size());
    for (std::int64_t begin = 0; begin < rows; begin += window) {
        const std::int64_t end = std::min(rows, begin + window);
        fill(source, one, begin, end, one.info.dtype, a.data());
        fill(source, other, begin, end, one.info.dtype, b.data());
        if (std::memcmp(a.data(), b.data(), static_cast<std::size_t>((end - begin) * row_bytes)) !=
            0)
            return differ();
    }
    release(source, first);
    release(source, second);
    return {};
}

}  // namespace roll::convert
