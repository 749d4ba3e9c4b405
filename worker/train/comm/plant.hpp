// A bug that an in-process group plants in its transfers, so that a test can show that it finds
// such a bug.
#pragma once

#include <cstdint>
#include <string>

#include "worker/train/comm/communicator.hpp"

namespace roll::train {

struct Plant {
    enum class Kind : std::uint8_t {
        Drop,     // each rank keeps its own input; a message is zeros
        Double,   // the result is twice as large
        Average,  // the result is divided by the number of ranks
        Regroup,  // the lower and the upper half of the ranks reduce among themselves
        Delay,    // the result is that of the last such transfer, and zeros at first
    };
    Kind kind;
    Site site;
    int layer = -1;          // of the tag; -1: any
    std::string group = {};  // begin of the group's name; empty: any

    bool hits(const std::string& group_name, const Tag& tag) const;
};

// Returns the planted result of a transfer, from each rank's input, the right result and the right
// result of the last such transfer, which may be undefined. `rank` is the number of the receiver.
at::Tensor planted(Plant::Kind kind, const Transfer& transfer, const at::TensorList& inputs,
                   int rank, const at::Tensor& right, const at::Tensor& before);

}  // namespace roll::train
