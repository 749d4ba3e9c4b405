#include "worker/train/ops/panel_matmul.hpp"

#include <memory>

#include <ATen/native/CPUBlas.h>

#include "worker/train/ops/kernel.hpp"

namespace roll::ops {
namespace {

using Room = std::unique_ptr<float[]>;

constexpr std::int64_t kRows = 64, kColumns = 32;  // size of one block of float32 sums
// Maximum length of a sum within a panel, so that a panel stays in the L2 cache
constexpr std::int64_t kInnerMax = 1024;
// maximum number of rows of the left matrix that are packed at a time
constexpr std::int64_t kRowsMax = 2048;
// Maximum number of results that are held as float32 sums at a time; they are then rounded to the
// output's type
constexpr std::int64_t kNarrowNumbers = 2 << 20;
// Number of padding elements after each packed row, so that rows do not compete for the same sets
// of the L1 cache
constexpr std::int64_t kPad = 16;

std::int64_t parts(std::int64_t size, std::int64_t part) { return (size + part - 1) / part; }

// A matrix whose rows are contiguous or, if `turned`, whose columns are contiguous. `stride` is the
// distance between adjacent rows (or columns).
struct Matrix {
    at::Tensor tensor;
    std::int64_t stride;
    bool turned;

    bool lies_in_floats() const { return !turned && tensor.scalar_type() == at::kFloat; }

    template <class S>
    const S* at(std::int64_t row, std::int64_t column) const {
        return tensor.const_data_ptr<S>() +
               (turned ? column * stride + row : row * stride + column);
    }

    void pack(float* to, std::int64_t to_stride, std::int64_t row, std::int64_t column,
              std::int64_t rows, std::int64_t columns) const {
        const auto pack_as = [&]<class S>(S) {
            simd::kernels<S>().pack(to, to_stride, at<S>(row, column), stride, turned, rows,
                                    columns);
        };
        switch (tensor.scalar_type()) {
            case at::kBFloat16: return pack_as(c10::BFloat16{});
            case at::kHalf: return pack_as(c10::Half{});
            default: return pack_as(float{});
        }
    }
};

Matrix matrix_of(const at::Tensor& tensor) {
    const std::int64_t rows = tensor.size(0), columns = tensor.size(1);
    if (tensor.stride(1) == 1 && tensor.stride(0) >= columns)
        return {tensor, tensor.stride(0), false};
    if (tensor.stride(0) == 1 && tensor.stride(1) >= rows) return {tensor, tensor.stride(1), true};
    return {tensor.clone(at::MemoryFormat::Contiguous), columns, false};
}

// A part of the product a @ b: the terms [first, first + inner) of each element's sum.
struct Part {
    const Matrix &a, &b;
    float* sums;
    std::int64_t sums_stride, rows, columns, first, inner;
    bool add;
};

struct Left {
    const float* data;
    std::int64_t stride;
    Room room;
};

Left left_of(const Part& part) {
    if (part.a.lies_in_floats()) return {part.a.at<float>(0, part.first), part.a.stride, {}};
    const std::int64_t stride = part.inner + kPad;
    Room room =
        std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(part.rows * stride));
    for_rows(parts(part.rows, kRows), 1, [&](std::int64_t first, std::int64_t count) {
        const std::int64_t begin = first * kRows;
        part.a.pack(room.get() + begin * stride, stride, begin, part.first,
                    std::min(count * kRows, part.rows - begin), part.inner);
    });
    const float* const data = room.get();
    return {data, stride, std::move(room)};
}

// Computes a part in parallel. A task multiplies several blocks of rows by one panel of the right
// matrix.
void add_part(const Part& part) {
    const Left left = left_of(part);
    const std::int64_t panels = parts(part.columns, kColumns), blocks = parts(part.rows, kRows);
    const std::int64_t cuts = std::min(parts(4 * at::get_num_threads(), panels), blocks);
    const std::int64_t rows = parts(blocks, cuts) * kRows;
    for_rows(panels * cuts, 1, [&](std::int64_t first, std::int64_t count) {
        const Room panel = std::make_unique_for_overwrite<float[]>(
            static_cast<std::size_t>(part.inner * kColumns));
        for (std::int64_t task = first; task < first + count; ++task) {
            const std::int64_t begin = task % cuts * rows, column = task / cuts * kColumns;
            const std::int64_t columns = std::min(kColumns, part.columns - column);
            if (task == first || begin == 0)
                part.b.pack(panel.get(), kColumns, part.first, column, part.inner, columns);
            const std::int64_t end = std::min(part.rows, begin + rows);
            for (std::int64_t row = begin; row < end; row += kRows)
                at::native::cpublas::brgemm(std::min(kRows, end - row), columns, part.inner,
                                            left.stride, kColumns, part.sums_stride, part.add,
                                            left.data + row * left.stride, panel.get(),
                                            part.sums + row * part.sums_stride + column);
        }
    });
}

// Computes sums = a @ b. If `add`, adds a @ b to `sums` instead. `sums` is float32 with contiguous
// rows.
void multiply_panels(const at::Tensor& sums, const at::Tensor& a_MK, const at::Tensor& b_KN,
                     bool add) {
    const Matrix b = matrix_of(b_KN);
    const std::int64_t inner = a_MK.size(1), step = parts(inner, parts(inner, kInnerMax));
    for (std::int64_t row = 0; row < sums.size(0); row += kRowsMax) {
        const std::int64_t rows = std::min(kRowsMax, sums.size(0) - row);
        const Matrix a = matrix_of(a_MK.narrow(0, row, rows));
        for (std::int64_t first = 0; first < inner; first += step)
            add_part({a, b, sums.mutable_data_ptr<float>() + row * sums.stride(0), sums.stride(0),
                      rows, sums.size(1), first, std::min(step, inner - first), add || first > 0});
    }
}

}  // namespace

void panel_matmul(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN,
                  double beta) {
    TORCH_CHECK(b_KN.size(0) == a_MK.size(1) && out_MN.size(0) == a_MK.size(0) &&
                    out_MN.size(1) == b_KN.size(1),
                "the sizes of a matrix product do not match");
    if (out_MN.numel() == 0) return;
    if (a_MK.size(1) == 0) {
        if (beta == 0) out_MN.zero_();
        return;
    }
    if (out_MN.scalar_type() == at::kFloat && out_MN.stride(1) == 1)
        return multiply_panels(out_MN, a_MK, b_KN, beta != 0);
    const std::int64_t height = std::min(kRowsMax, out_MN.size(0));
    const std::int64_t width = std::max(kColumns, kNarrowNumbers / height / kColumns * kColumns);
    for (std::int64_t row = 0; row < out_MN.size(0); row += height)
        for (std::int64_t column = 0; column < out_MN.size(1); column += width) {
            const std::int64_t rows = std::min(height, out_MN.size(0) - row);
            const std::int64_t columns = std::min(width, out_MN.size(1) - column);
            const at::Tensor out = out_MN.narrow(0, row, rows).narrow(1, column, columns);
            const at::Tensor sums =
                beta == 0 ? at::empty(out.sizes(), at::kFloat)
                          : out.to(at::kFloat, false, /*copy=*/true, at::MemoryFormat::Contiguous);
            multiply_panels(sums, a_MK.narrow(0, row, rows), b_KN.narrow(1, column, columns),
                            beta != 0);
            out.copy_(sums);
        }
}

}  // namespace roll::ops
