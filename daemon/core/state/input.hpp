// Inputs: reports and requests from outside the core. An input is not yet a fact, because decide()
// may refuse it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/core/state/event.hpp"

namespace roll::core {

// In every input, `by` is the user who requests the change.
// clang-format off
struct Started { std::uint64_t at_least = 0; bool adopting = false; };  // rolld has started; raises the incarnation to at least `at_least`
struct Submit { std::string key; std::string user; spec::JobSpec spec; };
struct SetPolicy { spec::Policy policy; };             // the content of rolld.yaml
struct SetSecrets { SecretNames names; };              // names of all existing secrets
struct Cancel { JobId job; std::string reason; std::string by{}; bool halved = false; };
struct Close { JobId job; std::string by{}; };                           // closes a job group
struct Hold { JobId job; bool held = true; std::string by{}; };
struct Requeue { JobId job; std::string by{}; };                         // stops the job's attempt and queues the job again
struct SetPriority { JobId job; int priority = 0; std::string by{}; };
struct SetBegin { JobId job; Time begin{}; std::string by{}; };          // sets the begin time, and ends a back-off
struct AskCheckpoint { JobId job; std::string by{}; };                   // asks for a checkpoint at the next step boundary
struct AskTraining { JobId job; RequestKind kind{}; std::int64_t value = 0; std::string by{}; };  // makes a request to the training
struct Drain { std::string node; bool draining = true; std::string by{}; };
// Stops dispatch to all nodes, including nodes that join later. If `why` is nullopt, dispatch is
// resumed.
struct StopDispatch { std::optional<std::string> why; std::string by{}; };
struct WorkerHello {
    std::string node; std::string session; int slots = 0; int gpus = 0;
    std::optional<Pilot> pilot{}; std::uint64_t generation = 0;
    std::string segment{}; std::vector<int> gpu_numa{};
    std::int64_t memory = 0; int cpus = 0;
    std::string home{};
};
struct WorkerHeard { WorkerId worker; bool heard = true; };              // `heard` is false if the worker missed two heartbeats
// rolld has waited long enough after a take-over or a restore and may start jobs (leases rule 19)
struct Adopted { };
struct WorkerGone { WorkerId worker; std::string reason; };             // the worker was silent for too long and is lost
struct NodeDown { WorkerId worker; std::string reason; };               // the worker is silent, and Slurm reports its node down
struct MemberStarted { WorkerId worker; AttemptKey attempt; };          // the member's ranks have started
struct MemberExited { WorkerId worker; AttemptKey attempt; Outcome outcome = Outcome::Done; int exit_code = 0; std::string reason;
    std::vector<int> matched{};
    Usage usage{};
};
struct StaleClaim { WorkerId worker; AttemptKey attempt; };             // the worker runs an attempt that is not current (FENCED)
struct MemberUnknown { WorkerId worker; AttemptKey attempt; };          // the worker should run the attempt but does not report it
struct CheckpointWritten { WorkerId worker; AttemptKey attempt; std::int64_t step = 0; std::string directory;
    std::uint64_t asked = 0; std::int64_t save_ms = 0;
};
// `token`: the attempt that wrote the checkpoint. `attempt`: the attempt that reports the deletion.
struct CheckpointDeleted { WorkerId worker; AttemptKey attempt; std::int64_t step = 0; Token token; };
struct RequestDone { WorkerId worker; AttemptKey attempt; RequestAnswer answer; };  // the ranks carried out a request
// `step`: step of the exported checkpoint of a training; 0: the export of a convert job. Exports of
// steps below `oldest` are deleted.
struct ExportWritten { WorkerId worker; AttemptKey attempt; std::string directory; std::int64_t step = 0;
    std::int64_t oldest = 0;
};
struct AddQueue { spec::PilotQueue queue; std::string by{}; };
struct PauseQueue { std::string queue; bool paused = true; std::string by{}; };
struct RemoveQueue { std::string queue; std::string by{}; };
struct CloseAllocation { AllocationId allocation; std::string by{}; };   // no further job starts in it; it is released when idle
struct CancelAllocation { AllocationId allocation; std::string by{}; };  // releases the allocation; its jobs stop and are queued again
struct OrderAnswered { AllocationId allocation; bool accepted = false; std::string slurm_job; std::string reason; };  // result of sbatch
struct OrderSeen {                                                      // a row of squeue
    AllocationId allocation; std::string slurm_job;
    SlurmPhase phase = SlurmPhase::Pending; std::string reason;
    std::optional<Time> began{}; std::optional<Time> ends{};
};
struct OrderMissing { AllocationId allocation; std::string reason; };   // Slurm no longer knows the job of the allocation request
struct Tick { std::chrono::milliseconds stepped{}; };                   // time has passed; `stepped`: step of the wall clock, or 0
// clang-format on

using AnyInput =
    std::variant<Started, Submit, SetPolicy, Cancel, Hold, Requeue, SetPriority, SetBegin, Drain,
                 WorkerHello, WorkerGone, MemberStarted, MemberExited, MemberUnknown,
                 CheckpointWritten, CheckpointDeleted, ExportWritten, Tick, AddQueue, PauseQueue,
                 RemoveQueue, OrderAnswered, OrderSeen, OrderMissing, AskCheckpoint, WorkerHeard,
                 Adopted, StopDispatch, Close, SetSecrets, NodeDown, StaleClaim, AskTraining,
                 RequestDone, CloseAllocation, CancelAllocation>;

// One of the inputs above. Its copies, moves and destruction are compiled once, in input.cpp.
// Otherwise, every file would compile them for each alternative, and tests would
// take a third longer to compile.
struct Input : AnyInput {
    template <class T>
    requires AlternativeOf<std::remove_cvref_t<T>, AnyInput> Input(T&& input)
        : AnyInput(std::in_place_type<std::remove_cvref_t<T>>, std::forward<T>(input)) {}
    Input(const Input&);
    Input(Input&&) noexcept;
    Input& operator=(const Input&);
    Input& operator=(Input&&) noexcept;
    ~Input();
};

}  // namespace roll::core
