// Runs one task at a time on a thread beside training. poll() and wait() return the task's outcome.
// Call start(), poll() and wait() from one thread.
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
    void start(Work work);  // starts the task; requires !busy()
    // returns the outcome once the task is done, and only once; else nullopt
    std::optional<Result<std::string>> poll();
    // waits for the task and returns its outcome once; nullopt if not busy
    std::optional<Result<std::string>> wait();

  private:
    std::future<Result<std::string>> outcome_;
};

}  // namespace roll::checkpoint
