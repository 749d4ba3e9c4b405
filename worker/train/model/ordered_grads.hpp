// Adds the micro-batches' contributions to a chunk's gradients. Adds the contributions to each
// parameter in the order of the micro-batches: a contribution that arrives early waits for its
// turn. Gradients are therefore bitwise the same for every pipeline schedule.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "worker/train/model/parameters.hpp"

namespace roll::train {

class OrderedGrads {
  public:
    explicit OrderedGrads(const Parameters& parameters)
        : parameters_(parameters),
          waiting_(parameters.specs.size()) {
        begin();
    }

    // Starts a new step without contributions. Aborts if a contribution of the last step still
    // waits for its turn.
    void begin();

    // Adds contribution number `use` of a micro-batch. Calls `add` once: now, or when it is the
    // turn of the contribution. `add` must give the same bits at both times. Drops the contribution
    // if the parameter is frozen. Calls `ready` for each contribution that this call added.
    void add(int parameter, int microbatch, int use, AddGrad add, const GradReady& ready);

    // Makes the gradient of a parameter that is not frozen ready for its next contribution. Returns
    // how to add that contribution.
    ops::Sum open(int parameter);

    // Returns true if contribution number `use` of the micro-batch is the next to be added.
    bool is_next(int parameter, int microbatch, int use) const;

  private:
    int place(int parameter, int microbatch, int use) const;

    const Parameters& parameters_;
    std::vector<int> next_;  // next_[p]: place() of the next contribution to parameter p
    // waiting_[p]: contributions to parameter p that arrived early, by their place()
    std::vector<std::map<int, AddGrad>> waiting_;
};

}  // namespace roll::train
