// Checks the tokens of a token file.
#pragma once

#include <cstdint>
#include <string>

#include "worker/train/process/failure.hpp"

namespace roll::train {

// Returns `token`. Throws RankFailure(invalid) if it is not below `vocab`; the message names the
// token.
inline std::int64_t checked_token(std::int64_t token, std::int64_t vocab) {
    if (token >= 0 && token < vocab) return token;
    throw RankFailure(2, "data: token " + std::to_string(token) +
                             " is outside the model's vocabulary of " + std::to_string(vocab) +
                             "; the token file was made with another tokenizer");
}

}  // namespace roll::train
