#include "common/io/signals.hpp"

#include <csignal>

#include <sys/signalfd.h>
#include <unistd.h>

#include "common/check.hpp"

namespace roll::io {

Descriptor queue_signals(std::initializer_list<int> signals) {
    ::signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : signals) ::sigaddset(&set, signal);
    ROLL_CHECK(::pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
    Descriptor queue(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    ROLL_CHECK(queue.get() >= 0);
    return queue;
}

std::optional<int> next_signal(const Descriptor& queue) {
    signalfd_siginfo info{};
    if (::read(queue.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
}

}  // namespace roll::io
