// Limits the time for which a request waits for a file. Without the limit, a volume that hangs
// would block the threads that answer requests.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "daemon/http/board.hpp"

namespace roll::http {

// Calls a function on a thread of its own. The class is thread-safe.
class Patient {
  public:
    static constexpr std::size_t kHangingMax = 16;  // maximum number of calls at the same time

    Patient(Ask ask, std::chrono::milliseconds patience)
        : ask_(std::make_shared<const Ask>(std::move(ask))),
          patience_(patience) {}

    // Returns what the function returns. Fails with Unavailable if the function takes longer than
    // `patience`, or if kHangingMax earlier calls have not ended. A call that hangs continues, but
    // its result is dropped.
    Result<Json> operator()(const std::string& op, const Json& args) const;

  private:
    std::shared_ptr<const Ask> ask_;
    std::chrono::milliseconds patience_;
    std::shared_ptr<std::atomic<std::size_t>> hanging_ =
        std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace roll::http
