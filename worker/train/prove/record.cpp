#include "worker/train/prove/record.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include "worker/train/model/packed_base.hpp"

namespace roll::train {
namespace {

// Returns a view of the block of `tensor` that begins at `begin` and has size `size`.
at::Tensor box_of(at::Tensor tensor, const layout::Shape& begin, const layout::Shape& size) {
    for (std::size_t i = 0; i < begin.size(); ++i)
        tensor = tensor.narrow(static_cast<std::int64_t>(i), begin[i], size[i]);
    return tensor;
}

// The strides of two tensors `to` and `from`, and their common sizes.
struct Walk {
    at::IntArrayRef sizes, to, from;
};

// Replaces each NaN in `to` by the element of `from` at the same place. Returns false if two
// elements at the same place differ and neither is NaN.
template <class T>
bool fill_in(T* to, const T* from, const Walk& walk) {
    if (walk.sizes.empty()) {
        if (std::isnan(*to)) *to = *from;
        return std::isnan(*from) || *from == *to;
    }
    const Walk rest{walk.sizes.slice(1), walk.to.slice(1), walk.from.slice(1)};
    bool equal = true;
    for (std::int64_t i = 0; i < walk.sizes[0]; ++i)
        equal &= fill_in(to + i * walk.to[0], from + i * walk.from[0], rest);
    return equal;
}

std::int64_t offset(const at::Tensor& tensor, const layout::Shape& index) {
    return std::inner_product(index.begin(), index.end(), tensor.strides().begin(),
                              std::int64_t{0});
}

// Like the function above, for a part of a whole tensor. Do not use tensor operations here: for
// thousands of small tensors, such operations took longer than the training steps that a test
// compares.
bool fill_in(const at::Tensor& whole, const at::Tensor& own, const layout::Part& part) {
    bool equal = true;
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, whole.scalar_type(), "fill_in", [&] {
        equal = fill_in(whole.mutable_data_ptr<scalar_t>() + offset(whole, part.whole),
                        own.const_data_ptr<scalar_t>() + offset(own, part.local),
                        {part.size, whole.strides(), own.strides()});
    });
    return equal;
}

// Returns the difference of the element that differs most. An element that is NaN counts as the
// element that differs most.
Difference difference_of(const std::string& name, const at::Tensor& seen,
                         const at::Tensor& expected) {
    Difference difference{.name = name, .error = error_of(seen, expected)};
    if (seen.sizes() != expected.sizes() || seen.numel() == 0) return difference;
    std::int64_t place = (seen - expected).abs().argmax().item<std::int64_t>();
    difference.seen = seen.reshape({-1})[place].item<double>();
    difference.expected = expected.reshape({-1})[place].item<double>();
    for (std::int64_t i = expected.dim() - 1; i >= 0; --i) {
        difference.index.insert(difference.index.begin(), place % expected.size(i));
        place /= expected.size(i);
    }
    return difference;
}

// The position of a quantity in the order in which steps compute quantities: step, kind, parameter.
using Order = std::tuple<int, int, int>;

Order order_of(const std::string& name, const std::map<std::string, int>& parameters) {
    constexpr std::array kKinds = {"loss",      "grad.",       "grad_zeros",
                                   "grad_norm", "clip_factor", "weight.",
                                   "exp_avg.",  "exp_avg_sq.", "momentum_buffer."};
    const std::size_t dot = name.find('.');
    const bool is_step = std::isdigit(static_cast<unsigned char>(name[0])) != 0;
    const std::string quantity = name.substr(dot + 1);
    const auto kind = std::ranges::find_if(
        kKinds, [&](const char* known) { return quantity.starts_with(known); });
    const std::size_t start = quantity.find('.');
    const auto found = parameters.find(quantity.substr(start + 1));
    const int place = found == parameters.end() ? 0 : found->second;
    return {is_step ? std::stoi(name) : std::numeric_limits<int>::max(),
            static_cast<int>(kind - kKinds.begin()),
            quantity.starts_with("grad.") ? -place : place};
}

// Returns the prefix of the quantities of a kind of optimizer state, such as "exp_avg.".
std::string quantity_of(std::string_view ending) { return std::string(ending.substr(1)) + "."; }

// Adds a tensor that has only this rank's rows of parameter `i`.
void note_own(Record& record, const std::string& name, const Parameters& p, std::size_t i,
              const at::Tensor& rows) {
    if (rows.sizes() == p.specs[i].sizes) return note_part(record, name, p.specs[i], rows);
    const at::Tensor all =
        at::full(p.specs[i].sizes, std::nan(""), rows.options().device(at::kCPU));
    own_rows(p, i, all).copy_(rows);
    note_part(record, name, p.specs[i], all);
}

}  // namespace

// Uses a loop, because tensor operations would take several times as long for small tensors.
double error_of(const at::Tensor& a, const at::Tensor& b) {
    if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
    const auto doubles = [](const at::Tensor& tensor) {
        return tensor.to(at::kCPU, at::kDouble).contiguous();
    };
    const at::Tensor seen = doubles(a), expected = doubles(b);
    const auto* const x = seen.const_data_ptr<double>();
    const auto* const y = expected.const_data_ptr<double>();
    double apart = 0, scale = 0;  // a NaN stays
    const auto raise = [](double& most, double value) {
        if (!(value <= most) && !std::isnan(most)) most = value;
    };
    for (std::int64_t i = 0; i < seen.numel(); ++i) {
        raise(apart, std::abs(x[i] - y[i]));
        raise(scale, std::abs(y[i]));
    }
    return apart / (scale > 0 ? scale : 1);
}

void note_number(Record& record, const std::string& name, double number) {
    const at::Tensor value = at::scalar_tensor(number, at::kDouble);
    const auto [place, is_new] = record.values.try_emplace(name, value);
    const bool both_nan = std::isnan(number) && std::isnan(place->second.item<double>());
    if (is_new || both_nan || place->second.equal(value)) return;
    record.unequal.push_back(difference_of(name, value, place->second));
    record.unequal.back().of_copies = true;
}

void note_part(Record& record, const std::string& name, const ParameterSpec& spec,
               const at::Tensor& of_rank) {
    const at::Tensor tensor = of_rank.cpu();
    at::Tensor& whole = record.values[name];
    if (!whole.defined()) whole = at::full(whole_sizes(spec), std::nan(""), tensor.options());
    std::vector<layout::Part> parts = spec.parts;
    const layout::Shape start(spec.sizes.size(), 0);
    if (parts.empty()) parts.push_back({start, {spec.sizes.begin(), spec.sizes.end()}, start});
    for (const layout::Part& part : parts) {
        if (fill_in(whole, tensor, part)) continue;
        const at::Tensor to = box_of(whole, part.whole, part.size);
        const at::Tensor from = box_of(tensor, part.local, part.size);
        const at::Tensor both = from.isnan().logical_or_(to.isnan()).logical_not_();
        record.unequal.push_back(
            difference_of(name, at::where(both, from, 0), at::where(both, to, 0)));
        record.unequal.back().of_copies = true;
    }
}

// Returns true if the state has one floating-point number for each element of this rank's own rows
// of parameter `i`. False for 8-bit codes, and for a state of another shape, such as Adafactor's.
bool has_own_rows(const Parameters& p, std::size_t i, const StateTensors& kind) {
    return kind.of[i].defined() && kind.of[i].is_floating_point() &&
           kind.of[i].sizes() == p.own_grad[i].sizes();
}

// Returns the gradient of this rank's own rows of parameter `i`; 0 if none is stored.
at::Tensor gradient_of(const Parameters& p, std::size_t i) {
    if (p.own_grad[i].defined()) return p.own_grad[i];
    std::vector<std::int64_t> sizes = p.specs[i].sizes;
    sizes[0] = p.own[i].count;
    return at::zeros(sizes, p.flat_own_grad.options());
}

void note_state(Record& record, const std::string& prefix, TrainStep& trainer) {
    for (std::size_t chunk = 0; chunk < trainer.chunks().size(); ++chunk) {
        const Parameters& p = trainer.chunks()[chunk].parameters();
        const OptimizerState& state = trainer.optimizers()[chunk].state();
        for (std::size_t i = 0; i < p.specs.size(); ++i) {
            const std::string& name = p.specs[i].name;
            note_own(record, prefix + "grad." + name, p, i, gradient_of(p, i));
            if (p.is_split[i])
                note_own(record, prefix + "weight." + name, p, i, weight_of(p, i));
            else
                note_part(record, prefix + "weight." + name, p.specs[i], weight_of(p, i));
            if (p.specs[i].frozen) continue;
            for (const StateTensors& kind : state.kinds)
                if (has_own_rows(p, i, kind))
                    note_own(record, prefix + quantity_of(kind.ending) + name, p, i, kind.of[i]);
        }
    }
}

void note_result(Record& record, const std::string& prefix, const StepResult& result) {
    note_number(record, prefix + "loss", result.loss);
    note_number(record, prefix + "grad_norm", result.grad_norm);
    note_number(record, prefix + "clip_factor", result.clip_factor);
    note_number(record, prefix + "grad_zeros", static_cast<double>(result.grad_zeros.value_or(-1)));
    if (result.pairs) note_pairs(record, prefix, *result.pairs);
    if (result.divergence) note_number(record, prefix + "divergence", *result.divergence);
    if (result.experts) {
        note_number(record, prefix + "balance", result.experts->loss);
        note_number(record, prefix + "expert_load", result.experts->fullest);
    }
    for (const LayerNorms& layer : result.layers) {
        note_number(record, prefix + "norms." + layer.name + ".grad", layer.grad);
        note_number(record, prefix + "norms." + layer.name + ".weight", layer.weight);
        note_number(record, prefix + "norms." + layer.name + ".update", layer.update);
    }
}

void note_pairs(Record& record, const std::string& prefix, const PairSums& sums) {
    note_number(record, prefix + "pairs", sums.samples());
    for (std::size_t i = PairSums::Chosen; i < PairSums::kCount; ++i)
        note_number(record, prefix + "pair_sum." + std::to_string(i), sums.sums[i]);
}

std::vector<Difference> differences(const Record& seen, const Named& reference, double limit,
                                    std::span<const std::string> parameters) {
    std::vector<Difference> all = seen.unequal;
    for (const auto& [name, expected] : reference) {
        const auto own = seen.values.find(name);
        const at::Tensor value = own != seen.values.end() ? own->second : at::empty({0});
        if (error_of(value, expected) <= limit) continue;
        all.push_back(difference_of(name, value, expected));
    }
    std::map<std::string, int> places;
    for (const std::string& name : parameters)
        places.emplace(name, static_cast<int>(places.size()));
    std::ranges::stable_sort(
        all, {}, [&](const Difference& difference) { return order_of(difference.name, places); });
    return all;
}

}  // namespace roll::train
