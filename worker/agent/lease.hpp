// How much silence any rolld can have counted against an attempt: the bound. Pure arithmetic.
//
// An answer lowers a bound, a look at the beacon lowers it, this machine's clock raises it. At
// `lease` the attempt checkpoints and stops and publishes nothing more, at `lease + fence` it is
// killed; rolld gives the job to others only later. Times are CLOCK_BOOTTIME, which runs on during
// suspend.
#pragma once

#include <chrono>
#include <cstdint>

namespace roll::agent {

using Millis = std::chrono::milliseconds;
using Instant = std::chrono::milliseconds;  // since boot

struct LeaseRules {
    Millis beat{1000};          // between heartbeats, and at least between rolld's beacon renewals
    Millis volume_delay{4000};  // the oldest beacon that a look may show
    Millis lease{15000};
    Millis fence{15000};
    Millis company{2000};    // an answer within this time: rolld is heard
    Millis orphan_after{0};  // time without an answer after which an attempt ends; 0 is never
};

// What one look at the beacon showed, and how long it took.
struct Look {
    std::uint64_t incarnation = 0;
    std::uint64_t counter = 0;
    Instant began{};
    Instant ended{};
};

class Bound {
  public:
    Bound() = default;
    // From the answer that started the attempt: when the heartbeat that it echoes was sent, and the
    // silence that rolld had counted when that came.
    Bound(Instant sent, std::int64_t counted, std::uint64_t incarnation, std::uint64_t counter,
          const LeaseRules& rules);

    Millis at(Instant now) const { return now - silent_since_; }
    Instant lease_ends(const LeaseRules& rules) const { return silent_since_ + rules.lease; }
    Instant killed_at(const LeaseRules& rules) const { return lease_ends(rules) + rules.fence; }

    // An answer that names the attempt. The time of receipt plays no part.
    void answered(Instant sent, std::int64_t counted, std::uint64_t incarnation,
                  std::uint64_t counter, const LeaseRules& rules);

    // A look. One that shows an older incarnation than the last answer's is no evidence; a newer
    // one starts anew, but revives nothing whose time is over.
    void looked(const Look& look, const LeaseRules& rules);

    // A look at a beacon that shows too little at times: it lowers nothing. More beats than this
    // clock has seen are believed all the same: the clock stood still while rolld counted.
    void doubted(const Look& look, const LeaseRules& rules);

  private:
    Instant silent_since_{};
    std::uint64_t incarnation_ = 0;
    std::uint64_t counter_ = 0;  // from which that incarnation counts
};

}  // namespace roll::agent
