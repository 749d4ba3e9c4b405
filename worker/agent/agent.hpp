// roll-worker's loop: what comes from rolld, the processes, the volume and the clock goes into
// AgentCore, and what it decides is carried out. One thread; waits in one place.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/io/signals.hpp"
#include "common/log.hpp"
#include "worker/agent/agent_core.hpp"
#include "worker/agent/gpu_watch.hpp"
#include "worker/agent/link.hpp"
#include "worker/agent/supervisor.hpp"
#include "worker/agent/volume.hpp"

namespace roll::agent {

// Of a pilot: when its jobs leave, and how long it stays when nobody answers.
struct PilotRules {
    std::optional<protocol::PilotNote> note{};
    std::chrono::seconds handover{};
    Millis unwanted{};
};

struct AgentParts {
    AgentCore core;
    Link link;
    Supervisor supervisor;
    RunDirectory& run_directory;
    io::Descriptor signals;
    Log log;
    PilotRules pilot{};
    Millis beat{1000};
    GpuWatch gpus{};
    bool last_word = false;  // the reaper: ends once rolld has answered, or after some time
};

class Agent {
  public:
    explicit Agent(AgentParts parts) : parts_(std::move(parts)) {}

    // Until a signal asks it to end and all attempts have ended and been reported, or a second
    // signal comes to one that is no pilot. Then nothing that it started is left.
    void run();

  private:
    void turn();
    void wait();
    void hear();
    void take_signals();
    void mind_allocation();
    void take(const ProcessEvent& event);
    void take(const VolumeEvent& event);
    void carry_out();
    void remember(const protocol::RunningAttempt& entry);
    void connect();
    void ask_to_beat(Millis within);
    Instant beat_due() const;
    void beat();
    bool over() const;

    AgentParts parts_;
    Volume volume_{};
    Instant now_{};
    std::optional<Instant> beat_at_{};     // when the last one went out
    std::optional<Instant> change_due_{};  // when rolld should have heard of a change
    int end_signals_ = 0;
    std::optional<Instant> give_up_at_{};  // an end that rolld does not take note of
    std::optional<Instant> answered_at_{};
    std::string last_trouble_{};
};

}  // namespace roll::agent
