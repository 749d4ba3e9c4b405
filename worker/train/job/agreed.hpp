// The requests to a job that all its ranks have agreed on. Because they agree, all ranks act on a
// request at the same step.
#pragma once

#include <vector>

#include "common/training_request.hpp"

namespace roll::train {

struct Agreed {
    bool stop = false;
    bool checkpoint = true;
    bool save = false;     // true: save a checkpoint and continue
    bool measure = false;  // true: measure the peak FLOP/s again
    bool fail = false;     // true: end, because a hook with `on_fail: stop` has failed
    std::vector<TrainingRequest> requests = {};  // in the order in which the ranks agreed on them

    // Merges `later`, the requests that the ranks have agreed on after these.
    void add(const Agreed& later) {
        stop |= later.stop;
        checkpoint &= later.checkpoint;
        save |= later.save;
        measure |= later.measure;
        fail |= later.fail;
        requests.insert(requests.end(), later.requests.begin(), later.requests.end());
    }
};

}  // namespace roll::train
