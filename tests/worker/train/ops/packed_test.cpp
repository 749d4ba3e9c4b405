// Compares packed weights with the numbers of bitsandbytes 0.50.2 (quantize_4bit, dequantize_4bit,
// int8_vectorwise_quant, int8_vectorwise_dequant on a CPU) for the weight of made(). Scales are
// packed by the formula of its default backend, because its kernel for CPUs rounds one of these 600
// scales to a number that is not the nearest.
#include "worker/train/ops/packed.hpp"

#include <array>

#include <ATen/ATen.h>

#include "tests/worker/train/expect.hpp"

namespace roll::ops {
namespace {

using spec::LoraBase;
using spec::PackedForm;

constexpr std::int64_t kRows = 300, kColumns = 128;

// Two matrices of 200 and 100 rows. The first has more than 256 blocks.
const FusedRows kFused{2, {100, 50}};

at::Tensor made() {
    const at::Tensor w = at::empty({kRows * kColumns}, at::kFloat);
    for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
        const auto x = static_cast<double>(i);
        const double size = 0.01 + static_cast<double>(i / kColumns % 13) * 0.003;
        w[i] = std::sin(0.37 * x) * std::cos(1e-3 * x * static_cast<double>(i % 89)) * size;
    }
    return w.view({kRows, kColumns});
}

at::Tensor rounded(const PackedForm& form, const at::Tensor& w) {
    return unpacked(form, packed(form, w, kFused), at::kDouble);
}

// The values of made() after bitsandbytes has quantized and dequantized it.
struct Told {
    const char* name;
    PackedForm form;
    double sum, squares, weighted;  // weighted: element i counts i % 101 times
    std::array<double, 7> some;     // elements 0, 77, 1000, 12345, 20000, 33333, 38399
};

const std::array<Told, 3> kTold{
    {{"nf4",
      {LoraBase::Nf4, false, 0, kColumns},
      -0.022402099042665213,
      8.907447034992156,
      143.72685618000105,
      {0.0, -0.0018447625916451216, 0.010330751538276672, 0.0, 0.0015939765144139528,
       0.003281893441453576, -0.009880410507321358}},
     {"nf4, packed scales",
      {LoraBase::Nf4, true, 0, kColumns},
      -0.020536691357847303,
      8.90818655144443,
      143.73869869404007,
      {0.0, -0.0018225873354822397, 0.010318590328097343, 0.0, 0.0015873999800533056,
       0.0032484170515090227, -0.009873157367110252}},
     {"int8",
      {LoraBase::Int8, false, 0, kColumns},
      -0.1592652050894685,
      8.756693674933612,
      140.3193883463755,
      {0.0, -0.0020439515355974436, 0.011127832345664501, -0.0009681750671006739,
       0.001949757686816156, 0.00341682112775743, -0.009414952248334885}}}};

TEST(Packed, HasTheNumbersOfBitsandbytes) {
    const at::Tensor w = made();
    for (const Told& told : kTold) {
        SCOPED_TRACE(told.name);
        const at::Tensor d = rounded(told.form, w).flatten();
        EXPECT_NEAR(d.sum().item<double>(), told.sum, 1e-6);
        EXPECT_NEAR(d.square().sum().item<double>(), told.squares, 1e-6);
        const at::Tensor times = at::arange(d.numel(), at::kDouble).remainder(101);
        EXPECT_NEAR((d * times).sum().item<double>(), told.weighted, 1e-5);
        constexpr std::array<std::int64_t, 7> kSome{0, 77, 1000, 12345, 20000, 33333, 38399};
        for (std::size_t i = 0; i < kSome.size(); ++i)
            EXPECT_NEAR(d[kSome[i]].item<double>(), told.some[i], 5e-9) << kSome[i];
    }
}

// A shard has the values of its columns in the whole weight, wherever it begins and ends.
TEST(Packed, SomeColumnsHaveTheValuesOfTheWholeRow) {
    const at::Tensor w = made();
    for (const Told& told : kTold) {
        SCOPED_TRACE(told.name);
        const at::Tensor whole = rounded(told.form, w);
        for (const auto& [first, count] :
             {std::pair{0, 34}, {34, 34}, {63, 2}, {64, 64}, {101, 27}}) {
            PackedForm part = told.form;
            part.first_column = first;
            part.columns = count;
            EXPECT_TRUE(rounded(part, w).equal(whole.narrow(1, first, count))) << first;
        }
    }
}

// Weights that were packed before keep their values.
TEST(Packed, PacksItsOwnValuesWithoutChange) {
    for (const Told& told : {kTold[0], kTold[2]}) {
        const at::Tensor once = rounded(told.form, made());
        expect_close(rounded(told.form, once), once, told.name, 1e-6);
    }
    const at::Tensor once = rounded(kTold[0].form, made());
    EXPECT_TRUE(rounded(kTold[0].form, once).equal(once));
    EXPECT_EQ(rounded(kTold[1].form, at::zeros({kRows, kColumns})).count_nonzero().item<int>(), 0);
}

// 4 bits and a scale of 32 bits per 64 weights; 8 bits per scale if the scales are packed.
TEST(Packed, TakesTheBitsOfItsForm) {
    const auto bits = [](LoraBase base, bool twice) {
        const PackedForm form{base, twice, 0, 4096};
        return 8 * static_cast<double>(form.row_bytes()) / 4096;
    };
    EXPECT_EQ(bits(LoraBase::Nf4, false), 4.5);
    EXPECT_NEAR(bits(LoraBase::Nf4, true), 4.16, 0.01);
    EXPECT_NEAR(bits(LoraBase::Int8, false), 8.02, 0.01);
}

// Otherwise, tensors that are made in between would take the freed memory, and the heap would grow.
TEST(Packed, UnpackedWeightsTakeTurnsInOneBuffer) {
    const PackedForm form{LoraBase::Nf4, false, 0, kColumns};
    const at::Tensor bytes = packed(form, made(), kFused), other = packed(form, -made(), kFused);
    const auto place_of = [&](const at::Tensor& rows) {
        return unpacked(form, rows, at::kFloat).const_data_ptr();
    };
    const void* const first = place_of(bytes);
    const at::Tensor between = at::empty({kRows, kColumns}, at::kFloat);
    EXPECT_EQ(place_of(other), first);
    const at::Tensor held = unpacked(form, bytes, at::kFloat), kept = held.clone();
    EXPECT_NE(place_of(other), held.const_data_ptr());
    EXPECT_TRUE(held.equal(kept));
}

}  // namespace
}  // namespace roll::ops
