// The requests to a job that its ranks have agreed on, so that all act on them at the same step.
#pragma once

namespace roll::train {

struct Agreed {
    bool stop = false;
    bool checkpoint = true;
    bool save = false;     // true: save a checkpoint and continue
    bool measure = false;  // measure the peak FLOP/s again
    bool fail = false;     // end, because a hook with `on_fail: stop` has failed

    // Adds the requests of a later agreement.
    void add(const Agreed& later) {
        stop |= later.stop;
        checkpoint &= later.checkpoint;
        save |= later.save;
        measure |= later.measure;
        fail |= later.fail;
    }
};

}  // namespace roll::train
