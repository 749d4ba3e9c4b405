// One writing thread beside training: at most one piece of work in flight, and its error comes out
// at the next look. start, poll and wait are called from one thread.
#pragma once

#include <functional>
#include <future>
#include <optional>
#include <string>

#include "common/error.hpp"

namespace roll::checkpoint {

// What the work has to say when it is done: the directory that it made.
using Work = std::function<Result<std::string>()>;

class Background {
  public:
    Background() = default;
    Background(const Background&) = delete;
    Background& operator=(const Background&) = delete;
    ~Background();  // waits; the outcome is lost

    bool busy() const { return outcome_.valid(); }
    void start(Work work);                      // not while busy
    std::optional<Result<std::string>> poll();  // the outcome, once, as soon as it is there
    std::optional<Result<std::string>> wait();  // the outcome, once; nothing if not busy

  private:
    std::future<Result<std::string>> outcome_;
};

}  // namespace roll::checkpoint
