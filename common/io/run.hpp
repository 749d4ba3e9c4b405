// Runs a program until it ends, and collects what it writes.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "common/io/process.hpp"

namespace roll::io {

// Creates a file in memory that has this content and that is read from its start. Close-on-exec.
Result<Descriptor> memory_file(std::string_view content);

struct RunOptions {
    std::string input{};  // content of the program's standard input, which is a file in memory
    std::chrono::milliseconds deadline = std::chrono::hours(24);
    // The program is killed once it has written more than this to its standard output.
    std::size_t output_max = 64 << 20;
};

struct Finished {
    bool timed_out = false;
    int exit_code = 0;  // as in a shell: 128 + n for signal n
    std::string output{};
    std::string errors{};  // first lines of the standard error
};

// Runs the program in a process group of its own. Blocks until the program ends, or until the
// deadline passes: then the process group is killed. The program is also killed if the calling
// thread ends. Fails like spawn() if the program cannot be started.
Result<Finished> run(Spawn spawn, const RunOptions& options);

}  // namespace roll::io
