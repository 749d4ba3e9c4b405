// A convert or merge job: what roll-convert does when roll-worker starts it with a launch file.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "worker/convert/commands.hpp"

namespace roll::convert {

struct LaunchEnvironment {
    Hooks hooks;
    // Of these checkpoint directories the newest whose every byte verifies, or, if it does and is
    // asked for, the one of the lowest validation loss. Corrupt: none verifies.
    std::function<Result<std::filesystem::path>(std::span<const std::filesystem::path> newest_first,
                                                bool best)>
        choose;
    std::function<void(const std::string& line)> report;  // one line up to the worker
    int threads = 0;                                      // 0: the machine's, at most 4
};

// Converts as the launch file says and reports each step. The exit status is that of
// docs/internals.md: 0 done, 1 failed, 2 can never work, 4 disk full or permission, 75 stopped,
// 76 the job's program on another node has ended.
int run_launch(const std::filesystem::path& file, const LaunchEnvironment& environment);

}  // namespace roll::convert
