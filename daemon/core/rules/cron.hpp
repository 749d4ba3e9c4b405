// Queues the copies of cron jobs.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Queues a copy of each `cron` job at each of its times, unless the cron job is held, the previous
// copy has not ended, or a quota blocks the copy.
Events send_cron_jobs(const State& state, Time now);

}  // namespace roll::core
