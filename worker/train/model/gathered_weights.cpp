#include "worker/train/model/gathered_weights.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/model/packed_base.hpp"
#include "worker/train/process/memory.hpp"

namespace roll::train {
namespace {

constexpr int kHeldMax = 2;
constexpr std::int64_t kAlignment = 64;  // alignment of each weight in its block, in bytes

std::int64_t aligned(std::int64_t numel, std::int64_t element_bytes) {
    const std::int64_t step = kAlignment / element_bytes;
    return (numel + step - 1) / step * step;
}

// Returns the bytes of a packed weight as elements of `type`, without a conversion, so that one
// transfer can carry all weights of a unit. Returns a weight that is not packed unchanged.
at::Tensor elements_of(const at::Tensor& weight, at::ScalarType type) {
    return weight.scalar_type() == at::kByte ? weight.view(type) : weight;
}

}  // namespace

GatheredWeights::GatheredWeights(Parameters& parameters, std::vector<std::vector<int>> units,
                                 Communicator& dp)
    : parameters_(parameters),
      dp_(dp),
      own_(parameters.weight) {
    const auto element = static_cast<std::int64_t>(parameters.flat_weight.itemsize());
    for (std::vector<int>& of_unit : units) {
        Unit& unit = units_.emplace_back();
        unit.parameters = std::move(of_unit);
        std::int64_t whole = 0;
        for (const int i : unit.parameters)
            whole += aligned(
                parameters.specs[i].sizes[0] * row_elements(parameters.specs[i], element), element);
        for (int owner = 0; owner < dp.size(); ++owner) {
            std::int64_t size = 0;
            for (const int i : unit.parameters) {
                const ParameterSpec& spec = parameters.specs[i];
                size += layout::own_rows(spec.sizes[0], dp.size(), owner).count *
                        row_elements(spec, element);
            }
            unit.longest = std::max(unit.longest, size);
        }
        block_numel_ = std::max({block_numel_, whole, dp.size() * unit.longest});
    }
}

at::Tensor GatheredWeights::Unit::pieces(int ranks) const {
    return received.narrow(0, 0, ranks * longest).view({ranks, longest});
}

at::Tensor GatheredWeights::take_block() {
    const TensorUseScope gathered(TensorUse::Gathered);
    if (free_blocks_.empty()) return at::empty({block_numel_}, parameters_.flat_weight.options());
    at::Tensor block = std::move(free_blocks_.back());
    free_blocks_.pop_back();
    return block;
}

void GatheredWeights::hold(int number, int next, bool again) {
    Unit& unit = units_[number];
    if (unit.holds == 0 && !unit.is_gathering) start(number, again);
    if (unit.is_gathering) finish(unit);
    ++unit.holds;
    if (next >= 0 && units_[next].holds == 0 && !units_[next].is_gathering) start(next, again);
}

// Starts to gather the rows of a unit. Each rank sends one piece: its own rows of all the unit's
// parameters. Shorter pieces are padded with zeros to the length of the longest piece.
void GatheredWeights::start(int number, bool again) {
    Unit& unit = units_[number];
    ++held_;
    ROLL_CHECK(held_ <= kHeldMax);
    most_held_ = std::max(most_held_, held_);
    unit.received = take_block();
    {
        const TensorUseScope gathered(TensorUse::Gathered);
        unit.sent = at::empty({1, unit.longest}, unit.received.options());
    }
    std::int64_t begin = 0;
    for (const int i : unit.parameters) {
        const at::Tensor own = elements_of(own_[i], parameters_.flat_weight.scalar_type());
        unit.sent[0].narrow(0, begin, own.numel()).copy_(own.view(-1));
        begin += own.numel();
    }
    unit.sent[0].slice(0, begin).zero_();
    const at::Tensor pieces = unit.pieces(dp_.size());
    unit.ticket = dp_.all_gather(pieces, unit.sent, {Site::Weights, number, -1, again});
    unit.is_gathering = true;
}

void GatheredWeights::finish(Unit& unit) {
    dp_.wait(unit.ticket);
    unit.is_gathering = false;
    unit.sent.reset();
    const at::Tensor pieces = unit.pieces(dp_.size());
    unit.whole = take_block();
    const auto element = static_cast<std::int64_t>(unit.whole.itemsize());
    std::int64_t place = 0;
    std::vector<std::int64_t> begin(static_cast<std::size_t>(dp_.size()), 0);
    for (const int i : unit.parameters) {
        const ParameterSpec& spec = parameters_.specs[i];
        const std::int64_t row = row_elements(spec, element), size = spec.sizes[0] * row;
        const at::Tensor whole = unit.whole.narrow(0, place, size).view({spec.sizes[0], row});
        for (int owner = 0; owner < dp_.size(); ++owner) {
            const layout::Rows rows = layout::own_rows(spec.sizes[0], dp_.size(), owner);
            const at::Tensor to = whole.narrow(0, rows.begin, rows.count);
            to.copy_(pieces[owner].narrow(0, begin[owner], to.numel()).view(to.sizes()));
            begin[owner] += to.numel();
        }
        parameters_.weight[i] =
            spec.form.is_packed() ? whole.view(at::kByte) : whole.view(spec.sizes);
        place += aligned(size, element);
    }
    free_blocks_.push_back(std::move(unit.received));
}

void GatheredWeights::release(int number) {
    Unit& unit = units_[number];
    if (--unit.holds > 0) return;
    for (const int i : unit.parameters) parameters_.weight[i] = own_[i];
    free_blocks_.push_back(std::move(unit.whole));
    if (--held_ == 0) free_blocks_.clear();
}

void GatheredWeights::check_all_free() const { ROLL_CHECK(held_ == 0); }

}  // namespace roll::train
