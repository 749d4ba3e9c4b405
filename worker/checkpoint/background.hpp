// Runs one task at a time on a background thread, while the calling thread trains. poll() and
// wait() return the task's outcome. Call start(), poll() and wait() from one thread.
#pragma once

#include <functional>
#include <future>
#include <optional>
#include <string>

#include "common/error.hpp"

namespace roll::checkpoint {

// A task. It returns the directory that it created.
using Work = std::function<Result<std::string>()>;

class Background {
  public:
    Background() = default;
    Background(const Background&) = delete;
    Background& operator=(const Background&) = delete;
    ~Background();  // waits for the task and discards its outcome

    bool busy() const { return outcome_.valid(); }
    void start(Work work);  // starts the task; requires !busy()
    // Returns the task's outcome if the task is done and its outcome was not returned yet; else
    // nullopt.
    std::optional<Result<std::string>> poll();
    // Waits for the task and returns its outcome; nullopt if not busy.
    std::optional<Result<std::string>> wait();

  private:
    std::future<Result<std::string>> outcome_;
};

}  // namespace roll::checkpoint
