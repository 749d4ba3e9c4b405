// Adds the micro-batches' contributions to a chunk's gradients. The contributions to a parameter
// are added in the order of the micro-batches. A contribution that arrives early waits for its
// turn. Therefore, the gradients are bitwise the same for every pipeline schedule.
#pragma once

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

    // Starts a new step without contributions. Aborts if a contribution of the previous step has
    // not been added yet.
    void begin();

    // Adds contribution number `use` of a micro-batch to the parameter's gradient. If the
    // contribution is early, keeps `add` for a later call of this function, which then calls `add`.
    // Therefore, `add` must compute the same bits at any time. If the parameter is frozen, drops
    // the contribution without calling `add`. Calls `ready` once for each contribution that is
    // added or dropped in this call.
    void add(int parameter, int microbatch, int use, AddGrad add, const GradReady& ready);

    // Prepares the gradient of a trained parameter for its next contribution. Returns whether that
    // contribution replaces the gradient's content or is added.
    ops::Sum open(int parameter);

    // Returns true if contribution number `use` of the micro-batch is the next to be added.
    bool is_next(int parameter, int microbatch, int use) const;

  private:
    int place(int parameter, int microbatch, int use) const;

    const Parameters& parameters_;
    // place() numbers the contributions to a parameter in the order in which they are added.
    // next_[p]: number of the next contribution to parameter p
    std::vector<int> next_;
    // waiting_[p]: contributions to parameter p that arrived early; the key is their place()
    std::vector<std::map<int, AddGrad>> waiting_;
};

}  // namespace roll::train
