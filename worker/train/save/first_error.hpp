// Combines the results of an operation that all ranks of a job do together.
#pragma once

#include <optional>

#include "common/error.hpp"
#include "worker/train/comm/communicator.hpp"

namespace roll::train {

// The error of a rank.
struct RankError {
    int rank = 0;
    Error error;
};

// Returns the error of the first rank whose result is an error; nullopt if there is none. A long
// message with its hint is truncated. All ranks must call this function, and all get the same
// result.
std::optional<RankError> first_error(Communicator& world, const Result<void>& own);

}  // namespace roll::train
