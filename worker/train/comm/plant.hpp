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
    int layer = -1;          // Tag::layer of the transfers to change; -1: every layer
    std::string group = {};  // beginning of the name of the group; empty: every group
    bool again = false;      // true: only transfers of layers that backward computes again

    bool hits(const std::string& group_name, const Tag& tag) const;
};

// Returns the wrong result that the bug gives to rank `rank`. `inputs` are the inputs of all ranks,
// and `right` is the right result. `before` is the right result of the last such transfer; it is
// undefined if there was none.
at::Tensor planted(Plant::Kind kind, const Transfer& transfer, const at::TensorList& inputs,
                   int rank, const at::Tensor& right, const at::Tensor& before);

}  // namespace roll::train
