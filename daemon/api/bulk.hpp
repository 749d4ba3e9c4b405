// Bulk requests: cancel, close, hold, release or update many jobs. Each turn (one pass of rolld's
// main loop) processes a part of the jobs. Turns therefore stay short, and rolld serves workers and
// other clients between them. The answer is sent once all changes are committed. A client may limit
// the time that it waits. After this time it gets the progress and a ticket, and can ask for the
// answer later with the ticket. If rolld ends before all jobs are changed, no answer is sent. If
// the client repeats the request, rolld changes the remaining jobs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/gateway/sessions.hpp"

namespace roll::api {

// A client that waits for an answer.
struct Waiter {
    gateway::Peer peer{};
    std::uint64_t id = 0;  // id of the client's request
    std::string user{};
    std::optional<gateway::Instant> until{};  // end of the wait; nullopt: wait until all is done
};

struct BulkRequest {
    Waiter waiter{};
    std::vector<JobId> jobs{};  // jobs to process, in this order
    // Appends the inputs for one job.
    std::function<void(JobId, std::vector<core::Input>&)> add_inputs{};
    Result<Json> answer{};  // the answer if no input is refused, else the first refusal
};

struct Answered {
    Waiter waiter{};
    Result<Json> answer{};
};

class BulkQueue {
  public:
    static constexpr std::size_t kInputsMin = 256;

    // `inputs` is the number of inputs that all requests together may add per turn. Once this
    // number is reached, each further request still adds the inputs of one job per turn, so that
    // every request makes progress. The first ticket has the number `ticket` + 1. Each start of
    // rolld must pass a different `ticket`.
    explicit BulkQueue(std::size_t inputs = kInputsMin, std::uint64_t ticket = 0)
        : inputs_(inputs),
          ticket_(ticket) {}

    void ask(BulkRequest many);
    // Lets `waiter` wait for the request with this ticket. Fails with NotFound if this user has no
    // request with the ticket. Also fails with NotFound if the result was already sent, or was
    // dropped. A result is dropped if no client asks for it within a minute.
    Result<void> ask_again(std::uint64_t ticket, Waiter waiter);
    // Returns whether no job is left to process.
    bool empty() const;
    void add_to(std::vector<core::Input>& turn);
    // Returns the answers to send now, in the order in which the requests arrived. A request gets
    // its final answer once all of its changes are committed. A client whose time limit has passed
    // gets the progress and the ticket.
    std::vector<Answered> settle(const engine::Turn& turn, gateway::Instant now);
    // Adapts the number of inputs per turn, so that a turn takes a few milliseconds. `commit` is
    // the time that the last turn needed to commit its events to disk, and `turn` is the rest of
    // the turn's duration. If commits are slow, a turn may take as long as its commit, but at most
    // 24 ms: longer turns need fewer commits.
    void pace(std::chrono::nanoseconds turn, std::chrono::nanoseconds commit);

  private:
    static constexpr std::size_t kInputsMax = 8192;

    struct Pending {
        BulkRequest many;
        std::uint64_t ticket = 0;
        bool awaited = true;
        bool over = false;
        gateway::Instant over_at{};
        // Positions in `jobs`: this turn changes the jobs [done, taken).
        std::size_t done = 0, taken = 0;
        std::size_t first = 0, end = 0;  // this request has the turn's inputs [first, end)
    };
    static Answered answer(Pending& asked);

    std::size_t inputs_;
    std::uint64_t ticket_;
    std::list<Pending> pending_{};
};

}  // namespace roll::api
