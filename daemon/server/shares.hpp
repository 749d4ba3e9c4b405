// Requests that concern many jobs (cancel, close, hold, release, update): a share of them goes into
// each turn, so that no turn is long and workers and other clients are heard in between. The answer
// comes when all is committed; a client that waits for a limited time is told how far it is, with a
// ticket to ask again. rolld's end in the middle leaves some done and nothing answered: asked
// again, the rest is done.
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

// Who waits for an answer.
struct Waiter {
    gateway::Peer peer{};
    std::uint64_t id = 0;  // of the request
    std::string user{};
    std::optional<gateway::Instant> until{};  // nullopt: until all is done
};

struct Many {
    Waiter waiter{};
    std::vector<JobId> jobs{};  // in the order of their inputs
    // Appends what is asked of one job.
    std::function<void(JobId, std::vector<core::Input>&)> add_inputs{};
    Result<Json> answer{};  // the first refusal takes its place
};

struct Settled {
    Waiter waiter{};
    Result<Json> answer{};
};

class Shares {
  public:
    static constexpr std::size_t kInputsMin = 256;

    // inputs: of a turn, of all requests together; each gets those of one job at least. Tickets
    // follow `ticket`, which no other run of rolld gives out.
    explicit Shares(std::size_t inputs = kInputsMin, std::uint64_t ticket = 0)
        : inputs_(inputs),
          ticket_(ticket) {}

    void ask(Many many);
    // Error NotFound: no request of this user has the ticket, or its end was told, or nobody asked
    // for a minute.
    Result<void> ask_again(std::uint64_t ticket, Waiter waiter);
    // Whether nothing is left to put into a turn.
    bool empty() const;
    void add_to(std::vector<core::Input>& turn);
    // The answers that are due: of requests that this turn was the last of, in the order in which
    // they were asked, and of waiters whose time is over.
    std::vector<Settled> settle(const engine::Turn& turn, gateway::Instant now);
    // Adapts the share to what the last turn took, its commit apart: some milliseconds are wanted.
    void pace(std::chrono::nanoseconds turn);

  private:
    static constexpr std::size_t kInputsMax = 8192;

    struct Asked {
        Many many;
        std::uint64_t ticket = 0;
        bool awaited = true;
        bool over = false;
        gateway::Instant over_at{};
        std::size_t done = 0, taken = 0;  // jobs; this turn's are from done to taken
        std::size_t first = 0, end = 0;   // the turn's inputs
    };
    static Settled answer(Asked& asked);

    std::size_t inputs_;
    std::uint64_t ticket_;
    std::list<Asked> asked_{};
};

}  // namespace roll::server
