// Bulk requests (cancel, close, hold, release, update of many jobs). A share of the jobs is
// processed in each turn, so that turns stay short and workers and other clients are heard in
// between. The answer is sent when all is committed. A client with a limited wait gets the
// progress and a ticket to ask again. If rolld ends in between, some jobs are changed and nothing
// is answered; repeating the request changes the rest.
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

namespace roll::server {

// A client that waits for an answer.
struct Waiter {
    gateway::Peer peer{};
    std::uint64_t id = 0;  // request id
    std::string user{};
    std::optional<gateway::Instant> until{};  // end of the wait; nullopt: until all is done
};

struct Many {
    Waiter waiter{};
    std::vector<JobId> jobs{};  // in the order of their inputs
    // Appends the inputs for one job.
    std::function<void(JobId, std::vector<core::Input>&)> add_inputs{};
    Result<Json> answer{};  // replaced by the first refusal
};

struct Settled {
    Waiter waiter{};
    Result<Json> answer{};
};

class Shares {
  public:
    static constexpr std::size_t kInputsMin = 256;

    // `inputs` limits the inputs per turn of all requests together, but each request gets those of
    // at least one job. Tickets are numbered after `ticket`, which must be unique per run of rolld.
    explicit Shares(std::size_t inputs = kInputsMin, std::uint64_t ticket = 0)
        : inputs_(inputs),
          ticket_(ticket) {}

    void ask(Many many);
    // Waits for a request again. Fails with NotFound if no request of this user has the ticket, its
    // result was delivered, or nobody has asked for it for a minute.
    Result<void> ask_again(std::uint64_t ticket, Waiter waiter);
    // True if no job is left to process.
    bool empty() const;
    void add_to(std::vector<core::Input>& turn);
    // Returns the due answers: of requests finished in this turn, in the order of arrival, and of
    // waiters whose time is over.
    std::vector<Settled> settle(const engine::Turn& turn, gateway::Instant now);
    // Adapts the share to the duration of the last turn without its commit; the target is a few
    // milliseconds.
    void pace(std::chrono::nanoseconds turn);

  private:
    static constexpr std::size_t kInputsMax = 8192;

    struct Asked {
        Many many;
        std::uint64_t ticket = 0;
        bool awaited = true;
        bool over = false;
        gateway::Instant over_at{};
        std::size_t done = 0, taken = 0;  // jobs; this turn processes those from `done` to `taken`
        std::size_t first = 0, end = 0;   // range of the turn's inputs
    };
    static Settled answer(Asked& asked);

    std::size_t inputs_;
    std::uint64_t ticket_;
    std::list<Asked> asked_{};
};

}  // namespace roll::server
