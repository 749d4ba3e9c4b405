// Runs in separate threads the operations that may hang if a volume hangs, so that roll-worker's
// loop continues. The operations read the beacon, and rename checkpoints to their final names.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/error.hpp"
#include "common/io/descriptor.hpp"
#include "worker/agent/core/agent_core.hpp"

namespace roll::agent {

struct Looked {
    std::optional<Look> look;  // what was read from the beacon; nullopt if the read failed
};
struct Published {
    AttemptKey attempt;
    std::int64_t step = 0;
    Result<void> done;  // result of the rename; Unavailable if the lease expired before the rename
};
using VolumeEvent = std::variant<Looked, Published>;

// Runs the operations. The destructor waits for the operations that still run. If the volume hangs,
// it waits forever.
class Volume {
  public:
    Volume();
    Volume(const Volume&) = delete;
    Volume& operator=(const Volume&) = delete;
    ~Volume();

    // Reads the beacon (a look). Does nothing if the previous read of the beacon still runs.
    void look(const std::string& beacon);
    void publish(const Publish& publish);

    // Returns a descriptor that is readable when collect() has events.
    int descriptor() const { return wake_.get(); }
    std::vector<VolumeEvent> collect();

  private:
    struct Lane {  // a thread and its queue
        std::condition_variable ready{};
        std::deque<std::function<VolumeEvent()>> work{};
        bool busy = false;
        std::thread thread{};
    };
    void serve(Lane& lane);
    void submit(Lane& lane, std::function<VolumeEvent()> work);

    io::Descriptor wake_;
    std::mutex mutex_{};
    bool ending_ = false;
    std::vector<VolumeEvent> events_{};
    Lane looks_{};
    Lane renames_{};
};

}  // namespace roll::agent
