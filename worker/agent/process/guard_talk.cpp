#include "worker/agent/process/guard_talk.hpp"

#include <cerrno>

#include <unistd.h>

#include "common/io/passing.hpp"
#include "worker/agent/process/guard_shells.hpp"

namespace roll::agent {

bool Talk::fill() {
    std::string bytes;
    const ssize_t n = io::receive_with(kGuardSocket, bytes, passed);
    lines.feed(bytes);
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

void Talk::flush() {
    if (unsaid.empty()) return;
    [[maybe_unused]] const ssize_t n = ::write(kGuardSocket, unsaid.data(), unsaid.size());
    unsaid.clear();
}

std::optional<GuardPlan> next_plan(Talk& talk) {
    for (;;) {
        while (const auto line = talk.lines.next()) {
            if (*line == "term" || *line == "kill" || *line == "stacks") continue;
            if (line->starts_with("unshell ")) continue;
            if (line->starts_with("shell ")) {
                take_descriptors(*line, talk);
                continue;
            }
            auto plan = decode_guard_plan(*line);
            return plan ? std::optional(*std::move(plan)) : std::nullopt;
        }
        talk.flush();
        if (!talk.fill()) return std::nullopt;
    }
}

}  // namespace roll::agent
