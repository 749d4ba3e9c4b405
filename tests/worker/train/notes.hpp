// Records what a rank of a test computed, and expects copies to be bitwise equal.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "worker/train/prove/record.hpp"

namespace roll::train {

// Moves the values of a record to `seen`. Expects that copies of replicas, and both copies of a
// tied embedding, are bitwise equal.
inline void take(Record record, Named& seen) {
    for (const Difference& copies : record.unequal)
        ADD_FAILURE() << "copies of " << copies.name << " differ: " << copies.seen << " and "
                      << copies.expected;
    seen = std::move(record.values);
}

// Adds all gradients, weights and moments of a rank to `seen`.
inline void note(Named& seen, const std::string& prefix, TrainStep& trainer) {
    Record record{.values = std::move(seen)};
    note_state(record, prefix, trainer);
    take(std::move(record), seen);
}

// Adds a rank's part of a parameter's tensor to `seen`.
inline void note_part(Named& seen, const std::string& name, const ParameterSpec& spec,
                      const at::Tensor& tensor) {
    Record record{.values = std::move(seen)};
    note_part(record, name, spec, tensor);
    take(std::move(record), seen);
}

}  // namespace roll::train
