// Requests that concern many jobs (cancel, close, hold, release, update): a share of them goes into
// each turn, so that no turn is long and workers and other clients are heard in between; the answer
// comes when all is committed. rolld's end in the middle leaves some done and nothing answered:
// asked again, the rest is done.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "common/json.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/gateway/sessions.hpp"

namespace roll::server {

struct Many {
    gateway::Peer peer{};
    std::uint64_t id = 0;
    std::vector<core::Input> inputs{};
    Result<Json> answer{};  // the first refusal takes its place
};

class Shares {
  public:
    // inputs: of a turn, of all requests together; each gets at least one.
    explicit Shares(std::size_t inputs = 256) : inputs_(inputs) {}

    void ask(Many many) { asked_.push_back({std::move(many)}); }
    bool empty() const { return asked_.empty(); }
    void add_to(std::vector<core::Input>& turn);
    // The requests that this turn was the last of, in the order in which they were asked.
    std::vector<Many> settle(const engine::Turn& turn);

  private:
    struct Asked {
        Many many;
        std::size_t done = 0, end = 0;  // of its inputs; this turn's are from done to end
        std::size_t first = 0;          // where these begin among the turn's
    };

    std::size_t inputs_;
    std::list<Asked> asked_{};
};

}  // namespace roll::server
