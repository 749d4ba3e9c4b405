// sim_test [--seed=N | --worlds=N | --worlds=M-N]: simulates the world of seed N, the worlds 1 to
// N, or the worlds M to N. Without an option, simulates 1 to 2000 and the worlds that failed once.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <spdlog/spdlog.h>
#include <unistd.h>

#include "tests/sim/world.hpp"

namespace {

// Seeds of worlds that failed once. docs/simulation.md tells what each has found. Each fault also
// has its own test, because a seed gives another world once the simulation is changed.
constexpr unsigned long kFailedOnce[] = {2597,  12233, 43981, 50349, 51200,  53048, 51604,
                                         71413, 71743, 75539, 96655, 111710, 302172};

char g_failure[80] = {};

void on_abort(int) {
    const ssize_t written = ::write(STDERR_FILENO, g_failure, std::string_view(g_failure).size());
    std::_Exit(written < 0 ? 2 : 1);
}

void add(const roll::sim::Totals& world, roll::sim::Totals& sum) {
    sum.seconds += world.seconds;
    sum.events += world.events;
    sum.restarts += world.restarts;
    sum.refused_turns += world.refused_turns;
    sum.jobs += world.jobs;
    sum.attempts += world.attempts;
    sum.checkpoints += world.checkpoints;
    sum.messages += world.messages;
    sum.stored += world.stored;
    sum.damaged += world.damaged;
    sum.leashes += world.leashes;
    sum.taken_over += world.taken_over;
    sum.with_slurm += world.with_slurm;
    sum.orders += world.orders;
    sum.polls += world.polls;
    sum.allocations += world.allocations;
    sum.doubled += world.doubled;
    sum.nodes_lost += world.nodes_lost;
    sum.asked_nodes += world.asked_nodes;
    sum.forsaken += world.forsaken;
    sum.twice += world.twice;
    sum.excess_most = std::max(sum.excess_most, world.excess_most);
    sum.unused_most = std::max(sum.unused_most, world.unused_most);
}

void simulate(unsigned long seed, roll::sim::Totals& sum) {
    std::snprintf(g_failure, sizeof g_failure, "failed: sim_test --seed=%lu\n", seed);
    roll::sim::World world(seed);
    world.run();
    add(world.totals(), sum);
}

}  // namespace

int main(int argc, char** argv) {
    unsigned long first = 1;
    unsigned long last = 2000;
    const std::string_view option = argc == 2 ? argv[1] : "";
    if (option.starts_with("--seed=")) first = last = std::strtoul(argv[1] + 7, nullptr, 10);
    if (option.starts_with("--worlds=")) {
        char* end = nullptr;
        last = std::strtoul(argv[1] + 9, &end, 10);
        if (*end == '-') {
            first = last;
            last = std::strtoul(end + 1, nullptr, 10);
        }
    }
    std::signal(SIGABRT, on_abort);
    // No warnings of the ledger about snapshots that it does not use.
    spdlog::set_level(spdlog::level::off);
    roll::sim::Totals sum;
    for (unsigned long seed = first; seed <= last; ++seed) simulate(seed, sum);
    if (option.empty()) {
        for (const unsigned long seed : kFailedOnce) simulate(seed, sum);
    }
    std::printf(
        "%lu worlds: %ld hours, %ld events, %ld jobs, %ld attempts, %ld checkpoints kept, "
        "%ld restarts of rolld, %ld of them elsewhere with a copy, %ld turns refused by a full "
        "volume, %ld messages, %ld attempts "
        "killed by their leash\n",
        last - first + 1, sum.seconds / 3600, sum.events, sum.jobs, sum.attempts, sum.checkpoints,
        sum.restarts, sum.taken_over, sum.refused_turns, sum.messages, sum.leashes);
    std::printf("%ld of them on SQLite, %ld starts from a damaged file refused\n", sum.stored,
                sum.damaged);
    std::printf(
        "Slurm in %ld worlds: %ld sbatch, %ld squeue; %ld allocations, %ld of them doubled by a "
        "lost "
        "answer, at most %ld beyond max_jobs; of no use for at most %ld s\n",
        sum.with_slurm, sum.orders, sum.polls, sum.allocations, sum.doubled, sum.excess_most,
        sum.unused_most);
    std::printf(
        "%ld nodes lost; %ld scontrol; %ld attempts given up because Slurm said that a node was "
        "down, %ld of them "
        "ran on\n",
        sum.nodes_lost, sum.asked_nodes, sum.forsaken, sum.twice);
    return 0;
}
