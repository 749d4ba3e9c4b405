#include "worker/convert/gather.hpp"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

namespace roll::convert {
namespace {

std::int64_t bytes_of(tensor::DType dtype) { return tensor::bits_of(dtype) / 8; }

// A box on its way from a strided tensor into a contiguous one. Offsets and strides in elements.
struct Move {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::vector<std::int64_t> from_strides;
    std::vector<std::int64_t> to_strides;
    Shape size;
    tensor::DType from_type = tensor::DType::F32;
    tensor::DType to_type = tensor::DType::F32;
};

void move_run(const Move& move, std::int64_t from, std::int64_t to, std::int64_t count) {
    const std::int64_t from_bytes = bytes_of(move.from_type);
    const std::int64_t to_bytes = bytes_of(move.to_type);
    const std::byte* const source = move.from + from * from_bytes;
    std::byte* const target = move.to + to * to_bytes;
    if (move.from_type == move.to_type) {
        std::memcpy(target, source, static_cast<std::size_t>(count * from_bytes));
    } else {
        tensor::cast(move.from_type, {source, static_cast<std::size_t>(count * from_bytes)},
                     move.to_type, {target, static_cast<std::size_t>(count * to_bytes)});
    }
}

void move_dims(const Move& move, std::size_t dim, std::size_t run_dim, std::int64_t run,
               std::int64_t from, std::int64_t to) {
    if (dim == run_dim) return move_run(move, from, to, run);
    for (std::int64_t i = 0; i < move.size[dim]; ++i)
        move_dims(move, dim + 1, run_dim, run, from + i * move.from_strides[dim],
                  to + i * move.to_strides[dim]);
}

// The last dims that lie back to back on both sides go as one run.
void carry_out(const Move& move) {
    std::size_t dim = move.size.size();
    std::int64_t run = 1;
    while (dim > 0 && (move.size[dim - 1] == 1 ||
                       (move.from_strides[dim - 1] == run && move.to_strides[dim - 1] == run))) {
        run *= move.size[dim - 1];
        --dim;
    }
    // A dim of one row has any stride: those outside the run need no loop either.
    move_dims(move, 0, dim, run, 0, 0);
}

const std::byte* address_of(const tensor::StridedView& view, const Shape& point) {
    std::int64_t offset = 0;
    for (std::size_t dim = 0; dim < point.size(); ++dim) offset += point[dim] * view.strides[dim];
    return view.first + offset * bytes_of(view.info.dtype);
}

// The pages of a mapped file that a tensor lies in; the kernel reads them again if need be.
void release(const Source& source, const tensor::StridedView& view) {
    if (!source.mapped) return;
    std::int64_t last = 0;
    for (std::size_t dim = 0; dim < view.strides.size(); ++dim)
        last += (view.info.shape[dim] - 1) * view.strides[dim];
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<std::uintptr_t>(view.first) / page * page;
    const auto end = reinterpret_cast<std::uintptr_t>(view.first) +
                     static_cast<std::uintptr_t>((last + 1) * bytes_of(view.info.dtype));
    if (last < 0) return;
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // NOLINT: of an address
}

// Rows [begin, end) of a target tensor into the buffer, as elements of `type`.
void fill(const Source& source, const TargetTensor& target, std::int64_t begin, std::int64_t end,
          tensor::DType type, std::byte* buffer) {
    const std::vector<std::int64_t> strides = tensor::row_major(target.info.shape);
    for (const Copy& copy : target.copies) {
        const tensor::StridedView& view = source.tensors[copy.source].view;
        Move move{nullptr, nullptr, view.strides, strides, copy.size, view.info.dtype, type};
        Shape from = copy.source_begin;
        Shape to = copy.target_begin;
        Shape hf = copy.hf_begin;
        if (!to.empty()) {
            const std::int64_t first = std::max(begin, to[0]);
            const std::int64_t last = std::min(end, to[0] + copy.size[0]);
            if (first >= last) continue;
            from[0] += first - to[0];
            if (!hf.empty()) hf[0] += first - to[0];
            to[0] = first - begin;
            move.size[0] = last - first;
        }
        std::int64_t offset = 0;
        for (std::size_t dim = 0; dim < to.size(); ++dim) offset += to[dim] * strides[dim];
        move.from = address_of(view, from);
        move.to = buffer + offset * bytes_of(type);
        carry_out(move);
        const auto delta = source.deltas.find(copy.hf);
        if (delta == source.deltas.end() || hf.empty()) continue;
        apply(delta->second, hf[0], hf[1], move.size[0], move.size[1],
              reinterpret_cast<float*>(move.to), strides[0]);  // NOLINT: F32 by is_changed
    }
}

bool is_changed(const Source& source, const TargetTensor& target) {
    return std::any_of(target.copies.begin(), target.copies.end(),
                       [&](const Copy& copy) { return source.deltas.contains(copy.hf); });
}

// As fill(), but what an adapter changes is computed in fp32 and rounded once.
void fill_changed(const Source& source, const TargetTensor& target, std::int64_t begin,
                  std::int64_t end, std::byte* buffer) {
    const std::int64_t count = (end - begin) * tensor::row_major(target.info.shape)[0];
    std::vector<float> values(static_cast<std::size_t>(count));
    fill(source, target, begin, end, tensor::DType::F32,
         reinterpret_cast<std::byte*>(values.data()));
    tensor::cast(tensor::DType::F32, std::as_bytes(std::span(values)), target.info.dtype,
                 {buffer, static_cast<std::size_t>(count * bytes_of(target.info.dtype))});
}

}  // namespace

Result<void> gather(const Source& source, const TargetTensor& target, const Window& write) {
    const std::int64_t rows = target.info.shape.empty() ? 1 : target.info.shape[0];
    ROLL_TRY(const std::int64_t total, tensor::byte_count(target.info.dtype, target.info.shape));
    if (total == 0) return {};
    const std::int64_t row_bytes = total / rows;
    const std::int64_t window = std::clamp<std::int64_t>(kWindowBytes / row_bytes, 1, rows);
    std::vector<std::byte> buffer(static_cast<std::size_t>(window * row_bytes));
    for (std::int64_t begin = 0; begin < rows; begin += window) {
        const std::int64_t end = std::min(rows, begin + window);
        if (is_changed(source, target)) {
            fill_changed(source, target, begin, end, buffer.data());
        } else {
            fill(source, target, begin, end, target.info.dtype, buffer.data());
        }
        ROLL_TRY_VOID(write({buffer.data(), static_cast<std::size_t>((end - begin) * row_bytes)}));
    }
    for (const Copy& copy : target.copies) release(source, source.tensors[copy.source].view);
    return {};
}

Result<void> compare(const Source& source, const Comparison& comparison) {
    const SourceTensor& first = source.tensors[comparison.first];
    const SourceTensor& second = source.tensors[comparison.second];
    const auto differ = [&] {
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
    constexpr int kNoTensor = -1;  // as stored: an adapter's changes do not matter
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
    release(source, first.view);
    release(source, second.view);
    return {};
}

}  // namespace roll::convert
