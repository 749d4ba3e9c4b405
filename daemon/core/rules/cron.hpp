// Queues the copies of cron jobs.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::core {

// Queues a copy of each `cron` job at each of its times. Skips a time if the cron job is held, if
// the previous copy has not ended, or if a quota blocks the copy.
Events send_cron_jobs(const State& state, Time now);

}  // namespace roll::core
