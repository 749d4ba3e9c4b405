// Runs roll-worker's loop. The loop passes input from rolld, the child processes, the volume and
// the clock to AgentCore, and carries out the effects that AgentCore returns. The loop runs on one
// thread and waits only in wait().
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/io/service_manager.hpp"
#include "common/io/signals.hpp"
#include "common/log.hpp"
#include "worker/agent/core/agent_core.hpp"
#include "worker/agent/host/gpu_watch.hpp"
#include "worker/agent/job_files.hpp"
#include "worker/agent/link.hpp"
#include "worker/agent/process/supervisor.hpp"
#include "worker/agent/process/terminals.hpp"
#include "worker/agent/volume.hpp"

namespace roll::agent {

// The conditions under which a pilot (a roll-worker in a Slurm allocation) leaves its allocation.
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
    JobFiles files{};
    io::Descriptor signals;
    Log log;
    PilotRules pilot{};
    Millis heartbeat{1000};
    GpuWatch gpus{};
    io::ServiceManager manager{};
    // True in the reaper (reaper.hpp), which starts no attempts and only reports those of a killed
    // roll-worker. run() then returns once rolld has answered, or after a timeout.
    bool last_word = false;
};

class Agent {
  public:
    explicit Agent(AgentParts parts) : parts_(std::move(parts)) {}

    // Runs the loop. Returns once a signal has asked roll-worker to end and the end of every
    // attempt has been reported to rolld. After a second signal, run() returns at once, except in a
    // pilot (a roll-worker in a Slurm allocation). When roll-worker then ends, its guards kill the
    // processes that are left. Fails with Refused if rolld refuses this roll-worker because another
    // roll-worker uses the same node name.
    Result<void> run();

  private:
    void turn();
    void wait();
    void hear();
    void take_refusal(const protocol::Answer& answer);
    void fetch_files();
    void take_signals();
    void mind_allocation();
    void take(const ProcessEvent& event);
    void take(const VolumeEvent& event);
    void carry_out();
    void remember(const protocol::RunningAttempt& entry);
    void connect();
    void request_heartbeat(Millis within);
    Instant heartbeat_due() const;
    void send_heartbeat();
    bool over() const;

    AgentParts parts_;
    Volume volume_{};
    Terminals terminals_{};
    Instant now_{};
    std::optional<Instant> heartbeat_at_{};  // send time of the last heartbeat
    std::optional<Instant> change_due_{};    // time by which a heartbeat must report a change
    int end_signals_ = 0;
    // deadline for rolld's acknowledgement that the last attempts have ended
    std::optional<Instant> give_up_at_{};
    std::optional<Instant> answered_at_{};
    std::string refused_{};  // why rolld refuses this roll-worker; empty: rolld accepts it
    std::optional<Instant> refused_since_{};
    std::string last_trouble_{};
};

}  // namespace roll::agent
