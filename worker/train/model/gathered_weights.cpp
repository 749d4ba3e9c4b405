#include "worker/train/model/gathered_weights.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/model/packed_base.hpp"

namespace roll::train {
namespace {

constexpr int kHeldMax = 2;

// Returns packed bytes as elements of `type`, without a conversion, so that one transfer can carry
// all weights of a unit.
at::Tensor elements_of(const at::Tensor& weight, at::ScalarType type) {
    return weight.scalar_type() == at::kByte ? weight.view(type) : weight;
}

}  // namespace

GatheredWeights::GatheredWeights(Parameters& parameters, std::vector<std::vector<int>> units,
                                 Communicator& dp)
    : parameters_(parameters),
      dp_(dp),
      own_(parameters.weight) {
    for (std::vector<int>& of_unit : units) {
        Unit& unit = units_.emplace_back();
        unit.parameters = std::move(of_unit);
        for (int owner = 0; owner < dp.size(); ++owner) {
            std::int64_t size = 0;
            for (const int i : unit.parameters) {
                const ParameterSpec& spec = parameters.specs[i];
                size += layout::own_rows(spec.sizes[0], dp.size(), owner).count *
                        row_elements(spec, parameters.flat_weight.itemsize());
            }
            unit.longest = std::max(unit.longest, size);
        }
    }
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
    const at::TensorOptions kind = parameters_.flat_weight.options();
    unit.received = at::empty({dp_.size(), unit.longest}, kind);
    unit.sent = at::empty({1, unit.longest}, kind);
    std::int64_t begin = 0;
    for (const int i : unit.parameters) {
        const at::Tensor own = elements_of(own_[i], parameters_.flat_weight.scalar_type());
        unit.sent[0].narrow(0, begin, own.numel()).copy_(own.view(-1));
        begin += own.numel();
    }
    unit.sent[0].slice(0, begin).zero_();
    unit.ticket = dp_.all_gather(unit.received, unit.sent, {Site::Weights, number, -1, again});
    unit.is_gathering = true;
}

void GatheredWeights::finish(Unit& unit) {
    dp_.wait(unit.ticket);
    unit.is_gathering = false;
    std::vector<std::int64_t> begin(static_cast<std::size_t>(dp_.size()), 0);
    for (const int i : unit.parameters) {
        const ParameterSpec& spec = parameters_.specs[i];
        const at::Tensor weight = spec.form.is_packed()
                                      ? at::empty({spec.sizes[0], spec.form.row_bytes()}, at::kByte)
                                      : at::empty(spec.sizes, unit.received.options());
        const at::Tensor whole = elements_of(weight, unit.received.scalar_type());
        for (int owner = 0; owner < dp_.size(); ++owner) {
            const layout::Rows rows = layout::own_rows(spec.sizes[0], dp_.size(), owner);
            const at::Tensor to = whole.narrow(0, rows.begin, rows.count);
            to.copy_(unit.received[owner].narrow(0, begin[owner], to.numel()).view(to.sizes()));
            begin[owner] += to.numel();
        }
        parameters_.weight[i] = weight;
    }
    unit.sent.reset();
    unit.received.reset();
}

void GatheredWeights::release(int number) {
    Unit& unit = units_[number];
    if (--unit.holds > 0) return;
    for (const int i : unit.parameters) parameters_.weight[i] = own_[i];
    --held_;
}

void GatheredWeights::check_all_free() const { ROLL_CHECK(held_ == 0); }

}  // namespace roll::train
