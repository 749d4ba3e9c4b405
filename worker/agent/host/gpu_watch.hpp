// Measures GPU utilization in a separate thread, so that a hung driver does not block roll-worker's
// loop.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace roll::agent {

class GpuWatch {
  public:
    // Starts the thread, which calls `meter` (see gpu_meter()). Measures nothing if `meter` is
    // empty.
    explicit GpuWatch(std::function<std::vector<int>()> meter = {});

    // Returns the utilization of each GPU in percent, at most a few seconds old. The entry of a GPU
    // is -1 if its utilization is unknown. Returns an empty list before the first measurement.
    std::vector<int> use() const;

  private:
    struct Seen {
        std::mutex mutex;
        std::vector<int> use;
    };
    // the latest measurement, shared with the thread; the thread ends after GpuWatch is destroyed
    std::shared_ptr<Seen> seen_;
};

}  // namespace roll::agent
