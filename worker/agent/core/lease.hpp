// The bound of an attempt: the longest time for which rolld can have counted this worker as silent.
// The bound is valid for every rolld, also for one that took over from another rolld. The
// computation is pure.
//
// Answers and looks at the beacon (rolld's file with its tick counter) lower a bound; this
// machine's clock raises it. When the bound reaches `lease`, the attempt saves a checkpoint and
// stops. From then on, the attempt publishes no checkpoint. When the bound reaches `lease + fence`,
// the attempt is killed. rolld assigns the job to another worker only after this time. Times are
// CLOCK_BOOTTIME, which keeps running while the machine is suspended.
#pragma once

#include <chrono>
#include <cstdint>

namespace roll::agent {

using Millis = std::chrono::milliseconds;
using Instant = std::chrono::milliseconds;  // CLOCK_BOOTTIME

struct LeaseRules {
    // Minimum interval of rolld's ticks, which are its updates of the beacon
    Millis tick{1000};
    Millis volume_delay{4000};  // maximum age of the beacon's content when it is read
    Millis lease{15000};
    Millis fence{15000};
    Millis contact{2000};    // rolld counts as reachable for this time after an answer
    Millis orphan_after{0};  // attempts end if rolld has not answered for this time; 0: never
};

// One read of the beacon: the values in the file, and the times when the read began and ended.
struct Look {
    std::uint64_t incarnation = 0;
    std::uint64_t counter = 0;
    Instant began{};
    Instant ended{};
};

class SilenceBound {
  public:
    SilenceBound() = default;
    // Makes the bound of an attempt from the answer that contains its start order. `sent`: time
    // when the answered heartbeat was sent. `counted`: number of ticks that rolld had counted as
    // silence when that heartbeat arrived. `incarnation`: the start of rolld that answered.
    // `counter`: rolld's tick counter when `counted` was 0.
    SilenceBound(Instant sent, std::int64_t counted, std::uint64_t incarnation,
                 std::uint64_t counter, const LeaseRules& rules);

    Millis at(Instant now) const { return now - silent_since_; }
    Instant lease_ends(const LeaseRules& rules) const { return silent_since_ + rules.lease; }
    Instant killed_at(const LeaseRules& rules) const { return lease_ends(rules) + rules.fence; }

    // Lowers the bound after an answer that names the attempt. The new bound counts from the time
    // when the heartbeat was sent, not from the time when the answer arrived.
    void answered(Instant sent, std::int64_t counted, std::uint64_t incarnation,
                  std::uint64_t counter, const LeaseRules& rules);

    // Updates the bound after a look at a trusted beacon. The bound may become lower. Ignores a
    // look at an incarnation (start of rolld) that is older than the known one. After a look at a
    // newer incarnation, counts the ticks of that incarnation from 0. But if the bound has already
    // reached lease + fence, ignores the newer incarnation.
    void looked(const Look& look, const LeaseRules& rules);

    // Updates the bound after a look at a beacon that is not trusted. Never lowers the bound.
    // Raises it if the look shows more ticks than this machine's clock has measured: the clock then
    // stood still while rolld counted silence.
    void doubted(const Look& look, const LeaseRules& rules);

  private:
    Instant silent_since_{};
    std::uint64_t incarnation_ = 0;
    // value of the tick counter in `incarnation_` from which ticks are counted
    std::uint64_t counter_ = 0;
};

}  // namespace roll::agent
