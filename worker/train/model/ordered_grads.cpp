#include "worker/train/model/ordered_grads.hpp"

#include "common/check.hpp"

namespace roll::train {

void OrderedGrads::begin() {
    for (const auto& waiting : waiting_) ROLL_CHECK(waiting.empty());
    next_.assign(waiting_.size(), 0);
}

int OrderedGrads::place(int parameter, int microbatch, int use) const {
    return microbatch * parameters_.specs[parameter].uses + use;
}

bool OrderedGrads::is_next(int parameter, int microbatch, int use) const {
    return next_[parameter] == place(parameter, microbatch, use);
}

ops::Sum OrderedGrads::open(int parameter) {
    if (parameters_.stage != nullptr) return parameters_.stage->open(parameter);
    return next_[parameter] == 0 ? ops::Sum::Replace : ops::Sum::Add;
}

void OrderedGrads::add(int parameter, int microbatch, int use, AddGrad add,
                       const GradReady& ready) {
    std::map<int, AddGrad>& waiting = waiting_[parameter];
    const bool fresh = waiting.emplace(place(parameter, microbatch, use), std::move(add)).second;
    ROLL_CHECK(fresh);
    while (!waiting.empty() && waiting.begin()->first == next_[parameter]) {
        if (!parameters_.specs[parameter].frozen) {
            const ops::Sum sum = open(parameter);
            waiting.begin()->second(parameters_.grad[parameter], sum);
        }
        waiting.erase(waiting.begin());
        ++next_[parameter];
        ready(parameter);
    }
}

}  // namespace roll::train
