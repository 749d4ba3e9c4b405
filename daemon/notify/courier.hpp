// Reads rolld's events and delivers them to one target, in order, at least once.
//
// The position is the number of the last event that needs no further delivery: it was delivered,
// left out by a filter, or given up. A file stores the position, so that a restarted roll-notify
// continues after this event. A notification that was delivered just before a crash is delivered
// again with the same number. A slow target delays only its own courier.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"
#include "daemon/notify/deliver.hpp"
#include "daemon/notify/target.hpp"

namespace roll::notify {

class Courier {
  public:
    using Clock = std::chrono::steady_clock;
    using Ask = std::function<Result<Json>(const std::string& op, const Json& args)>;
    using Deliver = std::function<Result<void>(const Target&, const Delivery&)>;

    Courier(Target target, std::filesystem::path position_file, Ask ask, Deliver deliver);

    // Reads the position. Starts after the newest event if there is no file, or if rolld's ledger
    // is older than the position (after a restored backup). Fails if rolld does not answer or the
    // file has no number.
    Result<void> open();

    // Delivers the available events until a delivery fails or no event is left. Returns false if
    // rolld does not answer.
    bool work(Clock::time_point now);

    std::int64_t position() const { return position_; }
    Clock::time_point due() const { return due_; }  // time of the next attempt after a failure
    const Target& target() const { return target_; }

  private:
    bool take(const Json& event, Clock::time_point now);
    void advance(std::int64_t position);
    Result<Json> job_of(const Json& event);

    Target target_;
    std::filesystem::path file_;
    Ask ask_;
    Deliver deliver_;
    std::int64_t position_ = 0;
    std::int64_t saved_ = 0;
    int failures_ = 0;
    Clock::time_point failing_since_{};
    Clock::time_point due_{};
};

}  // namespace roll::notify
