// Shares the outcome of an operation that the ranks of a job make together.
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

// Returns the error of the first rank whose outcome is one, and nullopt if there is none. A long
// message is cut. All ranks must call it; all get the same.
std::optional<RankError> first_error(Communicator& world, const Result<void>& own);

}  // namespace roll::train
