// Runs a convert or merge job: roll-worker starts roll-convert with a launch file.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "worker/convert/command/commands.hpp"

namespace roll::convert {

struct LaunchEnvironment {
    Hooks hooks;
    // Returns the newest of these checkpoint directories whose bytes all verify. With `best`,
    // returns the directory with the lowest validation loss instead, if its bytes verify. Fails
    // with Corrupt if no directory verifies.
    std::function<Result<std::filesystem::path>(std::span<const std::filesystem::path> newest_first,
                                                bool best)>
        choose;
    std::function<void(const std::string& line)> report;  // sends a line to the worker
    int threads = 0;  // number of threads; 0: as many as cores, at most 4
};

// Converts as the launch file says and reports progress to the worker. Returns the exit status
// (docs/internals.md): 0 done, 1 failed, 2 can never work, 4 disk full or no permission, 75
// stopped, 76 the job's program on another node has ended.
int run_launch(const std::filesystem::path& file, const LaunchEnvironment& environment);

}  // namespace roll::convert
