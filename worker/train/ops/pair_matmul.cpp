#include "worker/train/ops/pair_matmul.hpp"

#include <memory>

#include "worker/train/ops/kernel.hpp"

namespace roll::ops {
namespace {

using simd::PairKernels;
using Number = c10::BFloat16;
using Room = std::unique_ptr<std::byte[]>;

// Maximum length of a sum within a panel; a longer panel would not stay in the L2 cache
constexpr std::int64_t kInnerMax = 4096;
// minimum number of rows; with fewer, packing costs more than it saves
constexpr std::int64_t kRowsMin = 32;
constexpr std::int64_t kLeftNumbers = 4 << 20;  // maximum numbers packed at a time
constexpr std::int64_t kLine = 32;              // numbers per cache line

struct Matrix {
    const Number* data;
    std::int64_t stride;
    bool turned;  // true: the matrix's columns are contiguous; false: its rows
};

std::optional<Matrix> matrix_of(const at::Tensor& tensor) {
    if (!is_narrow(tensor)) return std::nullopt;
    const auto* data = tensor.const_data_ptr<Number>();
    if (tensor.stride(1) == 1) return Matrix{data, tensor.stride(0), false};
    if (tensor.stride(0) == 1) return Matrix{data, tensor.stride(1), true};
    return std::nullopt;
}

// Returns true if pairs can be read directly from the matrix: each pair is whole and aligned.
bool lies_in_pairs(const Matrix& matrix) {
    return matrix.stride % 2 == 0 &&
           reinterpret_cast<std::uintptr_t>(matrix.data) % PairKernels::kPairBytes == 0;
}

bool takes(const Matrix& a, const Matrix& b, std::int64_t inner) {
    return inner > 0 && inner % 2 == 0 && (a.turned || lies_in_pairs(a)) &&
           (!b.turned || lies_in_pairs(b));
}

std::int64_t parts(std::int64_t size, std::int64_t part) { return (size + part - 1) / part; }

Room room_for(std::int64_t pairs) {
    return std::make_unique_for_overwrite<std::byte[]>(
        static_cast<std::size_t>(pairs * PairKernels::kPairBytes));
}

// A product, or the part of one that has some of its rows and some of the numbers in its sums.
struct Work {
    const PairKernels& kernels;
    Matrix a, b;
    // without the left side and the panel, which are set later from a and b
    simd::PairProduct whole;
};

// Packs the left side if its columns are contiguous. Packs as many numbers at a time as a cache
// line holds.
Room pack_left(const Work& work) {
    const std::int64_t row_bytes = work.whole.inner / 2 * PairKernels::kPairBytes;
    const std::int64_t rows = work.whole.rows, lines = parts(rows, kLine);
    Room packed = room_for(lines * kLine * work.whole.inner / 2);
    for_rows(lines, 1, [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t row = first * kLine; row < (first + count) * kLine; row += kLine)
            work.kernels.pack_left(packed.get() + row * row_bytes, work.a.data + row, work.a.stride,
                                   std::min(kLine, rows - row), work.whole.inner);
    });
    return packed;
}

// Computes rows [begin, end) of the output in the columns of one panel.
void multiply(const Work& work, const std::byte* left, simd::PairProduct p, std::int64_t begin,
              std::int64_t end) {
    constexpr std::int64_t kRows = PairKernels::kRows;
    const std::int64_t row_bytes = p.out_stride * (p.out_is_float ? 4 : 2);
    auto* const out = static_cast<std::byte*>(p.out);
    const std::int64_t step = work.a.turned ? kRows : end - begin;
    for (std::int64_t row = begin; row < end; row += step) {
        p.out = out + row * row_bytes;
        p.rows = std::min(step, end - row);
        if (work.a.turned) {
            p.left = left + row * (p.inner / 2) * PairKernels::kPairBytes;
            p.row_stride = 1;
            p.column_stride = kRows;
        } else {
            p.left = work.a.data + row * work.a.stride;
            p.row_stride = work.a.stride / 2;
            p.column_stride = 1;
        }
        work.kernels.product(p);
    }
}

// Computes the product in parallel. A task is one panel of the right side times a part of the rows.
void run(const Work& work) {
    constexpr std::int64_t kColumns = PairKernels::kColumns, kPart = 128;
    const simd::PairProduct& whole = work.whole;
    const Room left = work.a.turned ? pack_left(work) : Room();
    const std::int64_t panels = parts(whole.columns, kColumns), threads = at::get_num_threads();
    const std::int64_t cuts = std::min(parts(4 * threads, panels), parts(whole.rows, kPart));
    const std::int64_t rows =
        parts(parts(whole.rows, cuts), PairKernels::kRows) * PairKernels::kRows;
    for_rows(panels * cuts, 1, [&](std::int64_t first, std::int64_t count) {
        const Room panel = room_for(whole.inner / 2 * kColumns);
        for (std::int64_t task = first; task < first + count; ++task) {
            const std::int64_t begin = task % cuts * rows, column = task / cuts * kColumns;
            simd::PairProduct p = whole;
            p.columns = std::min(kColumns, whole.columns - column);
            p.panel = panel.get();
            p.out = static_cast<std::byte*>(whole.out) + column * (whole.out_is_float ? 4 : 2);
            if (task == first || begin == 0)
                work.kernels.pack_right(panel.get(),
                                        work.b.data + column * (work.b.turned ? work.b.stride : 1),
                                        work.b.stride, work.b.turned, p.columns, p.inner);
            multiply(work, left.get(), p, begin, std::min(whole.rows, begin + rows));
        }
    });
}

// Computes the product in parts: of its rows, and of the numbers in their sums. So the packed
// numbers of either side always fit in a cache.
void run_in_parts(const Work& all) {
    const simd::PairProduct& whole = all.whole;
    auto* const out = static_cast<std::byte*>(whole.out);
    for (std::int64_t begin = 0; begin < whole.inner; begin += kInnerMax) {
        Work work = all;
        work.b.data += begin * (all.b.turned ? 1 : all.b.stride);
        work.whole.add = whole.add || begin > 0;
        work.whole.inner = std::min(kInnerMax, whole.inner - begin);
        const std::int64_t most =
            all.a.turned ? kLeftNumbers / work.whole.inner / kLine * kLine : whole.rows;
        for (std::int64_t row = 0; row < whole.rows; row += most) {
            work.a.data = all.a.data +
                          (all.a.turned ? begin * all.a.stride + row : begin + row * all.a.stride);
            work.whole.out = out + row * whole.out_stride * (whole.out_is_float ? 4 : 2);
            work.whole.rows = std::min(most, whole.rows - row);
            run(work);
        }
    }
}

}  // namespace

bool pair_matmul(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN,
                 double beta) {
    const PairKernels* const kernels = simd::pair_kernels();
    const bool wide = out_MN.scalar_type() == at::kFloat;
    if (kernels == nullptr || (!wide && !is_narrow(out_MN)) || (beta != 0 && beta != 1))
        return false;
    const auto a = matrix_of(a_MK), b = matrix_of(b_KN);
    const std::int64_t inner = a_MK.size(1);
    if (!a || !b || !takes(*a, *b, inner)) return false;
    if (out_MN.stride(1) != 1 || out_MN.size(0) < kRowsMin || out_MN.size(1) == 0 ||
        (!wide && inner > kInnerMax))
        return false;
    TORCH_CHECK(
        b_KN.size(0) == inner && out_MN.size(0) == a_MK.size(0) && out_MN.size(1) == b_KN.size(1),
        "a product's sizes do not match");
    Work whole{*kernels, *a, *b, {}};
    whole.whole.out = out_MN.mutable_data_ptr();
    whole.whole.out_stride = out_MN.stride(0);
    whole.whole.out_is_float = wide;
    whole.whole.add = beta == 1;
    whole.whole.rows = out_MN.size(0);
    whole.whole.columns = out_MN.size(1);
    whole.whole.inner = inner;
    run_in_parts(whole);
    return true;
}

}  // namespace roll::ops
