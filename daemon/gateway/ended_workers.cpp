#include "daemon/gateway/ended_workers.hpp"

#include <algorithm>

#include <fcntl.h>
#include <sys/file.h>

#include "common/io/descriptor.hpp"

namespace roll::gateway {

// Returns whether a process holds the lock. To find out, takes a shared lock for a moment; a
// roll-worker that starts in this moment tries again.
static bool is_held(const std::filesystem::path& lock) {
    const io::Descriptor file(::open(lock.c_str(), O_RDONLY | O_CLOEXEC));
    return !file || ::flock(file.get(), LOCK_SH | LOCK_NB) != 0;
}

bool all_have_ended(const core::State& state, const std::filesystem::path& workers) {
    return !state.workers.empty() && std::ranges::all_of(state.workers, [&](const auto& item) {
        const core::Worker& worker = item.second;
        return worker.allocation == AllocationId{} && !is_held(workers / worker.node / "lock");
    });
}

}  // namespace roll::gateway
