// The limits of rolld's side of leases, in time and in ticks (docs/leases.md).
#pragma once

#include <chrono>

namespace roll::gateway {

struct LeaseRules {
    // ticks of silence after which a worker is lost: lease + fence + slack
    int lost_after_beats = 35;
    int silent_after_beats = 3;
    // ticks after which a worker that has sent no heartbeat since rolld's start counts as silent
    int silent_after_start_beats = 15;
    std::chrono::milliseconds company = std::chrono::seconds(2);
    std::chrono::milliseconds missing_grace = std::chrono::seconds(3);
    // Time for which a start order may take effect after it was sent: a worker drops orders older
    // than the lease of 15 s (docs/leases.md, rule 15), and a second is added for clock drift.
    std::chrono::milliseconds start_on_its_way = std::chrono::seconds(16);
    // Waiting times of a rolld that takes over from another rolld (leases rule 17). First, the
    // other rolld's beacon must stay unchanged for `stillness` (lease + tick). Then the new rolld
    // writes its claim to the beacon file. It may start only if no other rolld replaces the claim
    // within `claim_wait` (volume delay + tick).
    std::chrono::milliseconds stillness = std::chrono::seconds(16);
    std::chrono::milliseconds claim_wait = std::chrono::seconds(5);
    // A rolld that cannot read its beacon for this time ends, because another rolld may have taken
    // over. 0: it never ends for this reason.
    std::chrono::milliseconds volume_patience{0};
};

}  // namespace roll::gateway
