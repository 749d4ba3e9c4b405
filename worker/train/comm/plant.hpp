// A bug that an in-process group makes on purpose in its transfers. With it, a test proves that it
// would find such a bug.
#pragma once

#include <cstdint>
#include <string>

#include "common/error.hpp"
#include "worker/train/comm/communicator.hpp"

namespace roll::train {

struct Plant {
    enum class Kind : std::uint8_t {
        Drop,     // each rank keeps its own input; a message is zeros
        Double,   // each element of the result is multiplied by 2
        Average,  // the result is divided by the number of ranks
        Regroup,  // the lower and the upper half of the ranks reduce among themselves
        Delay,    // the result is that of the previous such transfer; zeros for the first
        Stale,    // like Delay, but the first result is right
    };
    Kind kind;
    Site site;
    int layer = -1;          // Tag::layer of the transfers to change; -1: every layer
    std::string group = {};  // beginning of the name of the group; empty: every group
    bool again = false;      // true: only transfers of layers that backward computes again

    bool hits(const std::string& group_name, const Tag& tag) const;
};

// Reads a plant written as KIND|SITE, KIND|SITE|LAYER or KIND|SITE|LAYER|GROUP, such as
// "drop|row output|1|tp". KIND is drop, double, average, regroup, delay or stale; SITE is a site in
// the words of text(Tag). Fails with InvalidArgument.
Result<Plant> parse_plant(const std::string& words);

// Returns the wrong result that the bug gives to rank `rank`. `inputs` are the inputs of all ranks,
// and `right` is the right result. `before` is the right result of the last such transfer; it is
// undefined if there was none.
at::Tensor planted(Plant::Kind kind, const Transfer& transfer, const at::TensorList& inputs,
                   int rank, const at::Tensor& right, const at::Tensor& before);

}  // namespace roll::train
