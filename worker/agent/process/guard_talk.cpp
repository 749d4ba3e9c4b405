#include "worker/agent/process/guard_talk.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>

#include <unistd.h>

#include "common/io/passing.hpp"

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

ShellOrder take_shell_order(const std::string& line, Talk& talk) {
    const std::size_t number = line.find(' ') + 1;
    const std::size_t order = line.find(' ', number) + 1;
    const std::size_t count =
        std::min<std::size_t>(std::strtoul(line.c_str() + number, nullptr, 10), talk.passed.size());
    const auto end = talk.passed.begin() + static_cast<std::ptrdiff_t>(count);
    ShellOrder taken{line.substr(order),
                     {std::make_move_iterator(talk.passed.begin()), std::make_move_iterator(end)}};
    talk.passed.erase(talk.passed.begin(), end);
    return taken;
}

std::optional<GuardPlan> next_plan(Talk& talk) {
    for (;;) {
        while (const auto line = talk.lines.next()) {
            if (*line == "term" || *line == "kill" || *line == "stacks") continue;
            if (line->starts_with("unshell ")) continue;
            if (line->starts_with("shell ")) {
                take_shell_order(*line, talk);
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
