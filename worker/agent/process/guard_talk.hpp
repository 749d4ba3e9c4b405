// The guard's end of the socket to roll-worker (guard.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/io/descriptor.hpp"
#include "worker/agent/process/guard_plan.hpp"
#include "worker/agent/process/lines.hpp"

namespace roll::agent {

constexpr int kGuardSocket = 0;

struct Talk {
    static constexpr std::size_t kPlanBytesMax = 64u << 20;
    LineReader lines{kPlanBytesMax};
    // Descriptors that roll-worker sent for the next plan's programs
    std::vector<io::Descriptor> passed{};
    std::string unsaid{};

    // Reads from the socket. Returns false if roll-worker has ended.
    bool fill();
    // Buffers `line` until flush(). The guard flushes before it waits, so that several lines
    // wake roll-worker only once. A newline in `line` becomes a space, because each line is a
    // message.
    void say(std::string line) {
        std::ranges::replace(line, '\n', ' ');
        unsaid += line + '\n';
    }
    void flush();
};

// An order "shell COUNT ORDER", with the COUNT descriptors that came with it (guard_shells.hpp).
struct ShellOrder {
    std::string order{};
    std::vector<io::Descriptor> passed{};
};
// Parses the order `line`. Moves the descriptors of the order from `talk` to the result.
ShellOrder take_shell_order(const std::string& line, Talk& talk);

// Returns the next plan; nullopt if roll-worker has ended. Skips orders for the previous
// attempt.
std::optional<GuardPlan> next_plan(Talk& talk);

}  // namespace roll::agent
