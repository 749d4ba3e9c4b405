// Adds what micro-batches contribute to a chunk's gradients, for each parameter in the order of the
// micro-batches, whatever the order they come in. So gradients do not depend on the pipeline
// schedule, to the last bit; what comes too early is kept until its turn.
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

    // A new step: nothing has been added. Aborts if something is still waiting for its turn.
    void begin();

    // Contribution number `use` of a micro-batch: add() runs now or in its turn, once, and must
    // give the same bits either way; of a frozen parameter it is dropped. `ready` is told of
    // everything that this call has added.
    void add(int parameter, int microbatch, int use, AddGrad add, const GradReady& ready);

    // Whether that contribution's turn has come.
    bool is_next(int parameter, int microbatch, int use) const;

  private:
    int place(int parameter, int microbatch, int use) const;

    const Parameters& parameters_;
    std::vector<int> next_;                        // by parameter
    std::vector<std::map<int, AddGrad>> waiting_;  // by parameter, then place
};

}  // namespace roll::train
