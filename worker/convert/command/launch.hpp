// Runs a convert or merge job. roll-worker starts roll-convert with a launch file.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "worker/convert/command/commands.hpp"

namespace roll::convert {

struct LaunchEnvironment {
    Hooks hooks;
    // Returns the newest of these checkpoint directories whose bytes match their manifest. With
    // `best`, instead returns the directory with the lowest validation loss, if its bytes match.
    // Fails with Corrupt if the bytes of no directory match.
    std::function<Result<std::filesystem::path>(std::span<const std::filesystem::path> newest_first,
                                                bool best)>
        choose;
    std::function<void(const std::string& line)> report;  // sends a line to the worker
    int threads = 0;  // number of threads; 0: as many as cores, at most 4
};

// Runs the conversion that the launch file describes, and reports progress to the worker. Returns
// the exit status (docs/internals.md): 0 success; 1 failure; 2 failure that a retry cannot avoid; 4
// disk full or no permission; 75 stopped; 76 the job's program on another node has ended.
int run_launch(const std::filesystem::path& file, const LaunchEnvironment& environment);

}  // namespace roll::convert
