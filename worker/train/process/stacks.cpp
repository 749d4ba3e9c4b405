#include "worker/train/process/stacks.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace roll::train {
namespace {

constexpr int kAsk = SIGUSR1;      // the signal that roll-worker sends to the process
constexpr int kCollect = SIGUSR2;  // the signal that this module sends to each thread in turn
constexpr int kFramesMax = 64;

// The stack of one thread. That thread's signal handler writes the stack here, without locks or
// allocation. Only one thread at a time is recorded.
struct Collected {
    std::array<void*, kFramesMax> frames{};
    int count = 0;
    sem_t done{};
};
Collected collected;
std::atomic<bool> wanted{false};

void collect(int) {
    const int saved = errno;
    if (wanted.exchange(false)) {
        collected.count = ::backtrace(collected.frames.data(), kFramesMax);
        ::sem_post(&collected.done);
    }
    errno = saved;
}

std::string name_of(void* address) {
    Dl_info info{};
    if (::dladdr(address, &info) == 0 || info.dli_sname == nullptr)
        return info.dli_fname == nullptr ? "?" : std::string("in ") + info.dli_fname;
    int status = 0;
    char* const readable = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
    std::string name = status == 0 ? readable : info.dli_sname;
    std::free(readable);
    return name.substr(0, 200);
}

std::string word_in(const std::filesystem::path& file) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line;
}

// Returns a thread's stack as text. If the thread does not answer because it hangs in the kernel,
// returns the name of the kernel function in which the thread waits (from /proc).
std::string stack_of(pid_t thread, const std::filesystem::path& task) {
    std::string text = "thread " + std::to_string(thread) + " (" + word_in(task / "comm") + ")\n";
    wanted = true;
    ::syscall(SYS_tgkill, ::getpid(), thread, kCollect);
    timespec until{};
    ::clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    const bool came = ::sem_timedwait(&collected.done, &until) == 0;
    if (!came && wanted.exchange(false))
        return text + "  does not answer; it waits in the kernel function " +
               word_in(task / "wchan") + "\n";
    // Leave out the first two frames: the signal handler and the kernel's signal trampoline.
    constexpr int kOurs = 2;
    for (int i = kOurs; i < collected.count; ++i)
        text += "  #" + std::to_string(i - kOurs) + " " +
                name_of(collected.frames[static_cast<std::size_t>(i)]) + "\n";
    return text;
}

void write_stderr(std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
        if (n <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(n));
    }
}

void dump() {
    write_stderr("stacks of all threads, requested by roll-worker:\n");
    const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
    std::error_code error;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
        const pid_t thread = std::atoi(task.path().filename().c_str());
        if (thread != self) write_stderr(stack_of(thread, task.path()));
    }
    write_stderr("end of stacks\n");
}

}  // namespace

void dump_stacks_on_signal() {
    std::array<void*, 2> warm{};
    // loads libgcc now, because the signal handler must not allocate memory
    ::backtrace(warm.data(), 2);
    ::sem_init(&collected.done, 0, 0);
    struct sigaction action {};
    action.sa_handler = collect;
    action.sa_flags = SA_RESTART;
    ::sigaction(kCollect, &action, nullptr);
    sigset_t asked;
    ::sigemptyset(&asked);
    ::sigaddset(&asked, kAsk);
    ::pthread_sigmask(SIG_BLOCK, &asked, nullptr);
    // Block all other signals in this thread, because the training thread handles SIGTERM.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([asked] {
        for (int signal = 0;;) {
            if (::sigwait(&asked, &signal) == 0) dump();
        }
    }).detach();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace roll::train
