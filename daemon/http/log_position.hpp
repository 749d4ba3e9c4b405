// The position up to which a stream has sent a log. The first answer sets the position to the end
// of the log, and is not sent. Each further answer has the text that was added since. The log of a
// later attempt is sent from its beginning on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/json.hpp"

namespace roll::http {

// Returns whether a target, such as "jobs/7/log?rank=0", is the log of a job.
bool is_log(std::string_view target);

class LogPosition {
  public:
    // `target` is the target of the GET request for the log, without the parameter `from`.
    explicit LogPosition(std::string target = {}) : target_(std::move(target)) {}

    // Returns the target of the next GET request.
    std::string next_target() const;

    // Takes the answer to the request for next_target(): roll.log/1, or an error. Returns whether
    // viewers need the answer.
    bool take(const Json& answer);

  private:
    std::string target_;
    std::optional<std::uint64_t> next_{};  // next byte to request; nullopt before the first answer
    std::optional<std::uint64_t> attempt_{};  // the attempt of the last answer
};

}  // namespace roll::http
