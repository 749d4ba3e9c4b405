// Runs one task at a time on a thread beside training. poll() and wait() return the task's outcome.
// start, poll and wait must be called from one thread.
#pragma once

#include <functional>
#include <future>
#include <optional>
#include <string>

#include "common/error.hpp"

namespace roll::checkpoint {

// A task, which returns the directory that it created.
using Work = std::function<Result<std::string>()>;

class Background {
  public:
    Background() = default;
    Background(const Background&) = delete;
    Background& operator=(const Background&) = delete;
    ~Background();  // waits for the task; discards its outcome

    bool busy() const { return outcome_.valid(); }
    void start(Work work);                      // requires !busy()
    std::optional<Result<std::string>> poll();  // returns the outcome once, when available
    std::optional<Result<std::string>> wait();  // returns the outcome once; nullopt if not busy

  private:
    std::future<Result<std::string>> outcome_;
};

}  // namespace roll::checkpoint
