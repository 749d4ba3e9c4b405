// Tests the memory of real processes. usage_test.cpp has limits.
#include "worker/agent/process/memory_watch.hpp"

#include <array>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/agent/process/clock.hpp"

namespace roll::agent {
namespace {

constexpr std::int64_t kMebibyte = 1 << 20;

// Processes that share pages and wait until they are killed. One process is the parent of the
// others.
class Family {
  public:
    Family(std::size_t children, std::size_t shared_bytes) {
        std::array<int, 2> ready{};
        EXPECT_EQ(::pipe(ready.data()), 0);
        parent_ = ::fork();
        if (parent_ == 0) {
            ::setpgid(0, 0);
            const std::vector<char> shared(shared_bytes, 'x');
            for (std::size_t i = 0; i < children; ++i)
                if (::fork() == 0) break;
            if (::write(ready[1], shared.data(), 1) == 1) ::pause();
            ::_exit(1);
        }
        ::close(ready[1]);
        char byte = 0;
        for (std::size_t i = 0; i < children + 1; ++i) EXPECT_EQ(::read(ready[0], &byte, 1), 1);
        ::close(ready[0]);
    }
    ~Family() {
        ::kill(-parent_, SIGKILL);
        ::waitpid(parent_, nullptr, 0);
    }
    Family(const Family&) = delete;
    Family& operator=(const Family&) = delete;

  private:
    pid_t parent_ = 0;
};

TEST(MemoryWatch, CountsSharedPagesOnce) {
    const Family family(3, 64 * kMebibyte);
    MemoryWatch watch(::getpid(), {});
    const Instant now = boot_now();
    watch.look(now);
    const std::int64_t measured = watch.used();
    EXPECT_GE(measured, 60 * kMebibyte);
    EXPECT_LT(measured, 120 * kMebibyte);
    EXPECT_EQ(watch.peak(), measured);
    watch.look(now + Millis(1500));  // not measured exactly again, because nothing has grown
    EXPECT_NEAR(static_cast<double>(watch.used()), static_cast<double>(measured), 8 * kMebibyte);
}

TEST(MemoryWatch, SeesThatMemoryBecomesFree) {
    MemoryWatch watch(::getpid(), {});
    const Instant now = boot_now();
    {
        const Family family(0, 64 * kMebibyte);
        watch.look(now);
        EXPECT_GE(watch.used(), 60 * kMebibyte);
    }
    watch.look(now + Millis(1500));
    EXPECT_EQ(watch.used(), 0);
    EXPECT_GE(watch.peak(), 60 * kMebibyte);
}

}  // namespace
}  // namespace roll::agent
