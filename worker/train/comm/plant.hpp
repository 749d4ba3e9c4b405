// A bug that an in-process group deliberately makes in its transfers. A test plants a bug to prove
// that the test would find such a bug.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/error.hpp"
#include "worker/train/comm/communicator.hpp"

namespace roll::train {

// The delivery of a transfer to one rank. `inputs`: the inputs of all ranks; empty for a message.
// `right`: the correct result. `before`: the correct result of the previous transfer with the same
// site and size; undefined if there was none.
struct Delivery {
    const Transfer& transfer;
    at::TensorList inputs;
    int rank;
    const at::Tensor& right;
    const at::Tensor& before;
};

struct Plant {
    enum class Kind : std::uint8_t {
        Drop,     // each rank gets its own input; a received message is zeros
        Double,   // each element of the result is multiplied by 2
        Average,  // the result is divided by the number of ranks
        Regroup,  // the lower half and the upper half of the ranks reduce separately
        Delay,    // result of the previous transfer with the same site and size; at first, zeros
        Stale,    // like Delay, but the first result is correct
        Change,   // the result is what `change` returns
    };
    Kind kind;
    Site site;
    int layer = -1;          // Tag::layer of the transfers to change; -1: every layer
    std::string group = {};  // prefix of the names of the affected groups; empty: every group
    bool again = false;      // true: changes only transfers of layers that backward recomputes
    // Returns the wrong result; only for Kind::Change
    std::function<at::Tensor(const Delivery&)> change = {};

    // Returns whether transfers with this tag in this group are to be changed.
    bool hits(const std::string& group_name, const Tag& tag) const;
};

// Reads a plant from text of the form KIND|SITE, KIND|SITE|LAYER or KIND|SITE|LAYER|GROUP, such as
// "drop|row output|1|tp". KIND is drop, double, average, regroup, delay or stale. SITE is a site as
// text(Tag) writes it. Fails with InvalidArgument.
Result<Plant> parse_plant(const std::string& words);

// Returns the wrong result that the bug delivers.
at::Tensor planted(const Plant& plant, const Delivery& delivery);

}  // namespace roll::train
