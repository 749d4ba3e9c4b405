// Delivers one notification: an HTTP POST, or a command that gets it on its standard input.
#pragma once

#include <cstdint>
#include <string>

#include "common/error.hpp"
#include "daemon/notify/target.hpp"

namespace roll::notify {

struct Delivery {
    std::int64_t seq = 0;
    std::string event;
    std::string body;
};

// Blocks until the target has answered, but not longer than the target's time limit. Fails with
// Failed if the status of the answer is not 200 to 299, or if the command does not exit with 0.
Result<void> deliver(const Target& target, const Delivery& delivery);

}  // namespace roll::notify
