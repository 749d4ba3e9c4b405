// The bound: the longest silence that any rolld can have counted against an attempt. Pure
// arithmetic.
//
// Answers and looks at the beacon lower a bound; this machine's clock raises it. At `lease` the
// attempt saves a checkpoint, stops and publishes nothing more; at `lease + fence` it is killed.
// rolld reassigns the job only after that. Times are CLOCK_BOOTTIME, which keeps running during
// suspend.
#pragma once

#include <chrono>
#include <cstdint>

namespace roll::agent {

using Millis = std::chrono::milliseconds;
using Instant = std::chrono::milliseconds;  // since boot

struct LeaseRules {
    Millis beat{1000};          // between heartbeats; minimum between rolld's beacon updates
    Millis volume_delay{4000};  // maximum age of a beacon that a look may show
    Millis lease{15000};
    Millis fence{15000};
    Millis company{2000};    // rolld counts as heard within this time after an answer
    Millis orphan_after{0};  // attempts end after this time without an answer; 0: never
};

// Result and duration of one look at the beacon.
struct Look {
    std::uint64_t incarnation = 0;
    std::uint64_t counter = 0;
    Instant began{};
    Instant ended{};
};

class Bound {
  public:
    Bound() = default;
    // From the answer that started the attempt. `sent`: when the echoed heartbeat was sent.
    // `counted`: silence in ticks that rolld had counted when that heartbeat arrived.
    Bound(Instant sent, std::int64_t counted, std::uint64_t incarnation, std::uint64_t counter,
          const LeaseRules& rules);

    Millis at(Instant now) const { return now - silent_since_; }
    Instant lease_ends(const LeaseRules& rules) const { return silent_since_ + rules.lease; }
    Instant killed_at(const LeaseRules& rules) const { return lease_ends(rules) + rules.fence; }

    // Applies an answer that names the attempt. The time of receipt does not matter.
    void answered(Instant sent, std::int64_t counted, std::uint64_t incarnation,
                  std::uint64_t counter, const LeaseRules& rules);

    // Applies a look. A look at an older incarnation than the last answer's is ignored. A newer
    // incarnation restarts the count, but does not revive an attempt whose fence has passed.
    void looked(const Look& look, const LeaseRules& rules);

    // Applies a look at a distrusted beacon, which never lowers the bound. If it shows more beats
    // than this clock has measured, the bound is raised: the clock stood still while rolld
    // counted.
    void doubted(const Look& look, const LeaseRules& rules);

  private:
    Instant silent_since_{};
    std::uint64_t incarnation_ = 0;
    std::uint64_t counter_ = 0;  // counter at which that incarnation's count starts
};

}  // namespace roll::agent
