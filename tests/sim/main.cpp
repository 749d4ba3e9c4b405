// sim_test [--seed=N | --worlds=N]: simulates worlds 1..N (default 2000), or the one of a seed.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <unistd.h>

#include "tests/sim/world.hpp"

namespace {

char g_failure[80] = {};

void on_abort(int) {
    const ssize_t written = ::write(STDERR_FILENO, g_failure, std::string_view(g_failure).size());
    std::_Exit(written < 0 ? 2 : 1);
}

}  // namespace

int main(int argc, char** argv) {
    unsigned long first = 1;
    unsigned long last = 2000;
    const std::string_view option = argc == 2 ? argv[1] : "";
    if (option.starts_with("--seed=")) first = last = std::strtoul(argv[1] + 7, nullptr, 10);
    if (option.starts_with("--worlds=")) last = std::strtoul(argv[1] + 9, nullptr, 10);
    std::signal(SIGABRT, on_abort);
    roll::sim::Totals sum;
    for (unsigned long seed = first; seed <= last; ++seed) {
        std::snprintf(g_failure, sizeof g_failure, "failed: sim_test --seed=%lu\n", seed);
        roll::sim::World world(seed);
        world.run();
        sum.seconds += world.totals().seconds;
        sum.events += world.totals().events;
        sum.restarts += world.totals().restarts;
        sum.refused_turns += world.totals().refused_turns;
        sum.jobs += world.totals().jobs;
        sum.attempts += world.totals().attempts;
        sum.checkpoints += world.totals().checkpoints;
    }
    std::printf(
        "%lu worlds: %ld hours, %ld events, %ld jobs, %ld attempts, %ld checkpoints kept, "
        "%ld restarts of rolld, %ld turns refused by a full volume\n",
        last - first + 1, sum.seconds / 3600, sum.events, sum.jobs, sum.attempts, sum.checkpoints,
        sum.restarts, sum.refused_turns);
    return 0;
}
