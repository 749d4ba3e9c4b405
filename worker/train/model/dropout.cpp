#include "worker/train/model/dropout.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include "worker/train/model/random.hpp"

namespace roll::train {
namespace {

constexpr auto low_word(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr auto high_word(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32U); }

// The random 32-bit words of one dropout site. philox() computes blocks of 4 words: word n is
// element n mod 4 of block n / 4.
class Words {
  public:
    Words(const Dropout& dropout, int site)
        : key_{low_word(dropout.seed), high_word(dropout.seed)},
          layer_(static_cast<std::uint32_t>(dropout.layer)),
          site_(kDomain + static_cast<std::uint32_t>(site)) {}

    std::uint32_t operator()(std::uint64_t number) {
        if (const std::uint64_t block = number / 4; block != held_) {
            words_ = philox({low_word(block), high_word(block), layer_, site_}, key_);
            held_ = block;
        }
        return words_[number % 4];
    }

  private:
    // Added to the site in philox()'s counter. Other uses of the same seed add other values, so
    // they get other random numbers.
    static constexpr std::uint32_t kDomain = 0xD0900000;
    PhiloxKey key_;
    std::uint32_t layer_, site_;
    std::uint64_t held_ = ~std::uint64_t{0};
    PhiloxCounter words_{};
};

}  // namespace

at::Tensor dropped(const at::Tensor& x_MC, const Dropout& dropout, int site) {
    if (!x_MC.is_cpu()) {  // the random numbers are computed on the CPU
        const at::ScalarType type = at::toOpMathType(x_MC.scalar_type());
        const at::Tensor kept_MC = dropped(at::ones(x_MC.sizes(), type), dropout, site);
        return (x_MC.to(type) * kept_MC.to(x_MC.device())).to(x_MC.scalar_type());
    }
    const at::Tensor in = x_MC.contiguous(), out = at::empty_like(in);
    const std::int64_t width = in.size(1);
    const auto limit = static_cast<std::uint64_t>(std::ldexp(dropout.probability, 32));
    const std::int64_t* const numbers =
        dropout.number_M.defined() ? dropout.number_M.const_data_ptr<std::int64_t>() : nullptr;
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, in.scalar_type(), "dropped", [&] {
        const auto* from = in.const_data_ptr<scalar_t>();
        auto* to = out.data_ptr<scalar_t>();
        using Wide = at::opmath_type<scalar_t>;
        const auto kept = static_cast<Wide>(1 / (1 - dropout.probability));
        at::parallel_for(0, in.size(0), 16, [&](std::int64_t begin, std::int64_t end) {
            Words words(dropout, site);
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t number = numbers == nullptr ? row : numbers[row];
                const auto first = static_cast<std::uint64_t>(
                    (dropout.first_row + number) * dropout.columns + dropout.first_column);
                for (std::int64_t i = row * width; i < (row + 1) * width; ++i) {
                    const bool drops =
                        words(first + static_cast<std::uint64_t>(i - row * width)) < limit;
                    to[i] = drops ? scalar_t(0)
                                  : static_cast<scalar_t>(static_cast<Wide>(from[i]) * kept);
                }
            }
        });
    });
    return out;
}

void add_noise(const Microbatch& data, const LossRule& rule, const RowSplit& rows,
               at::ScalarType type, const at::Tensor& x_MC) {
    if (rule.tokens.neftune_alpha == 0) return;
    const std::int64_t positions = data.context ? data.context->positions : data.tokens_BT.size(1);
    const std::int64_t width = x_MC.size(1);
    const std::int64_t own = rows.rows_per_rank();
    const std::int64_t begin = rows.is_split() ? std::min(rows.tp->rank() * own, rows.rows) : 0;
    const at::Tensor noise_MC =
        at::empty({std::min(own, rows.rows - begin), width}, at::TensorOptions(type));
    const double bound =
        rule.tokens.neftune_alpha / std::sqrt(static_cast<double>(positions * width));
    const auto fill = [&](const at::Tensor& to, std::int64_t row) {
        fill_uniform(to, bound, rule.seed, "neftune", (data.first_row + row) * width);
    };
    if (!data.context) fill(noise_MC, begin);
    for (std::int64_t i = 0; data.context && i < noise_MC.size(0); ++i)
        fill(noise_MC[i], data.context->number_M[begin + i].item<std::int64_t>());
    x_MC.narrow(0, 0, noise_MC.size(0)).add_(noise_MC.to(x_MC.device()));
}

}  // namespace roll::train
