// How busy this worker's GPUs are, looked at on a thread of its own: a driver that hangs must not
// hold the loop.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace roll::agent {

class GpuWatch {
  public:
    // `meter` as gpu_meter() makes it; empty: nothing is looked at.
    explicit GpuWatch(std::function<std::vector<int>()> meter = {});

    // Percent by GPU, not older than some seconds; -1: it cannot be told. Empty: not known yet.
    std::vector<int> use() const;

  private:
    struct Seen {
        std::mutex mutex;
        std::vector<int> use;
    };
    std::shared_ptr<Seen> seen_;  // the thread goes on while it is there
};

}  // namespace roll::agent
