// Judges a run by the values of its evaluations: finds the best checkpoint (train.best), and counts
// values that are not better than the best (train.early_stop).
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/train/train.hpp"
#include "worker/checkpoint/state.hpp"
#include "worker/train/comm/communicator.hpp"

namespace roll::train {

class Judge {
  public:
    explicit Judge(const spec::TrainSpec& spec) : spec_(spec) {}  // `spec` must outlive this object

    // Throws RankFailure(invalid) if the job is judged by a metric that is not in `known`.
    void check(const std::vector<std::string>& known) const;

    // Adds the values of an evaluation. The keys of `row` are those of metrics.jsonl.
    void add(const OrderedJson& row) { values_.update(row); }
    void forget() { values_.clear(); }  // drops the values that were added

    // Judges the values that were added since the last call, and notes the result in `state`.
    // Returns true, on all ranks, if the value of the metric that train.best names is the best so
    // far. Every rank of the job must call this function.
    bool decide(checkpoint::State& state, Communicator& world);

  private:
    const spec::TrainSpec& spec_;
    OrderedJson values_ = OrderedJson::object();
};

}  // namespace roll::train
