#include "worker/train/optim/eight_bit.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "worker/train/optim/rules.hpp"

namespace roll::train {
namespace {

// A code table with the points at which the nearest code changes.
struct Codes {
    std::array<float, 256> value;
    std::array<float, 255> border;
};

const Codes& codes(bool is_signed) {
    static const auto make = [](bool with_sign) {
        Codes made{.value = code_table(with_sign), .border = {}};
        for (std::size_t i = 0; i < made.border.size(); ++i)
            made.border[i] = (made.value[i] + made.value[i + 1]) / 2;
        return made;
    };
    static const Codes kSigned = make(true), kUnsigned = make(false);
    return is_signed ? kSigned : kUnsigned;
}

template <class W>
std::uint8_t nearest(const Codes& codes, W value) {
    const auto found = std::lower_bound(codes.border.begin(), codes.border.end(), value);
    return static_cast<std::uint8_t>(found - codes.border.begin());
}

// Returns the code of a first moment. As in bitsandbytes, the code has the sign of the value.
template <class W>
std::uint8_t signed_code(W value) {
    const Codes& table = codes(true);
    const std::uint8_t code = nearest(table, value);
    if (std::signbit(table.value[code]) == std::signbit(value)) return code;
    return static_cast<std::uint8_t>(value > 0 ? code + 1 : code - 1);
}

template <class W>
void raise(W& most, W value) {
    std::atomic_ref<W> shared(most);
    W before = shared.load(std::memory_order_relaxed);
    while (before < value && !shared.compare_exchange_weak(before, value)) {}
}

// Consecutive elements of one block of kCodeBlock elements. `local`: index of the first element in
// the rank's own rows. `block`: index of the block. `count`: number of elements.
struct Run {
    std::int64_t local, block, count;
};

// Calls body(Run) for all elements of the parts, in parallel. A block may include elements of
// several rows.
template <class Body>
void for_runs(const Update& update, const std::vector<layout::Part>& parts, const Body& body) {
    const ParameterSpec& spec = update.parameters.specs[update.index];
    const auto run_row = [&](std::int64_t local, std::int64_t whole, std::int64_t count) {
        for (std::int64_t done = 0; done < count;) {
            const std::int64_t block = (whole + done) / kCodeBlock;
            const std::int64_t end = std::min(count, (block + 1) * kCodeBlock - whole);
            body(Run{local + done, block, end - done});
            done = end;
        }
    };
    const std::span<const at::Tensor> of_codes(update.state.data(), 2);
    for_row_windows(of_codes, parts, spec, [&](std::span<const layout::Part> some) {
        for_part_rows(some, spec, run_row);
    });
}

// Pointers to the gradient and the state of one parameter, and the options of its update. W is the
// type of the main weights.
template <class W>
struct Coded {
    explicit Coded(const Update& u)
        : update(u),
          grad(u.parameters.own_grad[u.index].template const_data_ptr<W>()),
          first(u.state[0].template data_ptr<std::uint8_t>()),
          second(u.state[1].template data_ptr<std::uint8_t>()),
          most1(u.state[2].template data_ptr<W>()),
          most2(u.state[3].template data_ptr<W>()),
          beta1(static_cast<W>(u.options.beta1)),
          beta2(static_cast<W>(u.options.beta2)),
          scale(static_cast<W>(u.grad_scale)) {}

    // Returns the moments of an element after this update.
    std::array<W, 2> moments(std::int64_t i, std::int64_t block) const {
        const W g = grad[i] * scale;
        const W m = static_cast<W>(codes(true).value[first[i]]) * most1[block];
        const W v = static_cast<W>(codes(false).value[second[i]]) * most2[block];
        return {m * beta1 + (1 - beta1) * g, v * beta2 + (1 - beta2) * g * g};
    }

    const Update& update;
    const W* grad;
    std::uint8_t *first, *second;
    W *most1, *most2;
    W beta1, beta2, scale;
};

// Writes the largest absolute values of the moments after this update to `most`: first one value
// per block for the first moment, then one value per block for the second moment.
template <class W>
void find_most(const Coded<W>& coded, const std::vector<layout::Part>& parts, W* most,
               std::int64_t blocks) {
    for_runs(coded.update, parts, [&](const Run& run) {
        W most1 = 0, most2 = 0;
        for (std::int64_t i = run.local; i < run.local + run.count; ++i) {
            const auto [m, v] = coded.moments(i, run.block);
            most1 = std::max(most1, std::abs(m));
            most2 = std::max(most2, v);
        }
        raise(most[run.block], most1);
        raise(most[blocks + run.block], most2);
    });
}

// Moves the weights and writes the codes, with `most` as the new scales.
template <class S>
void move_coded(const Coded<simd::Wide<S>>& coded, const std::vector<layout::Part>& parts,
                const simd::Wide<S>* most, std::int64_t blocks) {
    using W = simd::Wide<S>;
    const Update& update = coded.update;
    const Parameters& p = update.parameters;
    const EightBitFactors factors = eight_bit_factors(update);
    const auto step = static_cast<W>(factors.step), eps = static_cast<W>(factors.eps),
               keep = static_cast<W>(factors.keep);
    S* const weight = updated(p, update.index).template data_ptr<S>();
    std::int16_t* const rest =
        p.rest.empty() ? nullptr : p.rest[update.index].template data_ptr<std::int16_t>();
    for_runs(update, parts, [&](const Run& run) {
        const W most1 = most[run.block], most2 = most[blocks + run.block];
        for (std::int64_t i = run.local; i < run.local + run.count; ++i) {
            const auto [m, v] = coded.moments(i, run.block);
            const W moved = step * m / (std::sqrt(v) + eps);
            if constexpr (std::is_same_v<S, W>) {
                weight[i] = (weight[i] - moved) * keep;
            } else {
                const W joined = (simd::join(weight[i], rest[i]) - moved) * keep;
                weight[i] = simd::nearest(joined);
                rest[i] = simd::rest_of(joined);
            }
            coded.first[i] = signed_code(most1 > 0 ? m / most1 : 0);
            coded.second[i] = nearest(codes(false), most2 > 0 ? v / most2 : 0);
        }
    });
}

}  // namespace

std::array<float, 256> code_table(bool is_signed) {
    constexpr int kExponents = 7;
    std::vector<float> values{0, 1};
    for (int i = 0; i < kExponents; ++i) {
        // Each value is the middle of one of `intervals` equal parts of [0.1, 1], times a power of
        // ten.
        const int intervals = 1 << (is_signed ? i : i + 1);
        const double unit = std::pow(10.0, i - kExponents + 1);
        for (int k = 0; k < intervals; ++k) {
            const auto value = static_cast<float>(unit * (0.1 + 0.9 * (k + 0.5) / intervals));
            values.push_back(value);
            if (is_signed) values.push_back(-value);
        }
    }
    std::ranges::sort(values);
    std::array<float, 256> table{};
    std::ranges::copy(values, table.begin());
    return table;
}

EightBitFactors eight_bit_factors(const Update& update) {
    const spec::OptimizerSpec& o = update.options;
    const auto steps = static_cast<double>(update.steps);
    const double root = std::sqrt(1 - std::pow(o.beta2, steps));
    return {update.lr * root / (1 - std::pow(o.beta1, steps)), root * o.eps,
            1 - update.lr * update.weight_decay};
}

void adamw_8bit(std::span<const Update> updates, const WholeSums& sums) {
    if (updates.empty()) return;
    if (!updates[0].state[2].is_cpu()) return adamw_8bit_on_gpu(updates, sums);
    std::int64_t size = 0;
    for (const Update& update : updates) size += 2 * update.state[2].numel();
    const at::Tensor most = at::zeros({size}, updates[0].state[2].options());
    const Parameters& p = updates[0].parameters;
    for_updated_type(p, [&]<class S>(S) {
        using W = simd::Wide<S>;
        W* place = most.data_ptr<W>();
        for (const Update& update : updates) {
            const std::int64_t blocks = update.state[2].numel();
            find_most(Coded<W>(update), sums.parts(update.index), place, blocks);
            place += 2 * blocks;
        }
        sums.reduce(most, Reduce::Max);
        place = most.data_ptr<W>();
        for (const Update& update : updates) {
            const std::int64_t blocks = update.state[2].numel();
            const Coded<W> coded(update);
            move_coded<S>(coded, parts_in(p.specs[update.index], p.own[update.index]), place,
                          blocks);
            std::copy_n(place, blocks, coded.most1);
            std::copy_n(place + blocks, blocks, coded.most2);
            place += 2 * blocks;
        }
    });
}

}  // namespace roll::train
