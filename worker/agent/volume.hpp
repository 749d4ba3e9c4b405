// What may hang with a volume, on threads of its own: looks at the beacon, and renames of
// checkpoints to their final names. Everything else of roll-worker goes on meanwhile.
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
#include "worker/agent/agent_core.hpp"

namespace roll::agent {

struct Looked {
    std::optional<Look> look;  // none: no evidence
};
struct Published {
    AttemptKey attempt;
    std::int64_t step = 0;
    Result<void> done;  // Unavailable: its time was over
};
using VolumeEvent = std::variant<Looked, Published>;

// Destroying one waits for what is under way, for ever on a hung volume.
class Volume {
  public:
    Volume();
    Volume(const Volume&) = delete;
    Volume& operator=(const Volume&) = delete;
    ~Volume();

    void look(const std::string& beacon);  // nothing if the last one still hangs
    void publish(const Publish& publish);

    int descriptor() const { return wake_.get(); }  // readable when collect() has something
    std::vector<VolumeEvent> collect();

  private:
    struct Lane {  // one thread and what it has to do
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
