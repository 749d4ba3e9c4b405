// Runs the Slurm commands (errands) that State requires.
#include <spdlog/spdlog.h>

#include "daemon/server/server.hpp"

namespace roll::server {
// Starts the next errand (a Slurm command) if none is running. The loss of an errand's outcome does
// no harm, because each errand follows only from State and from Slurm's last answers.
void Server::run_errands() {
    if (stopping_) return;
    if (!withdrawing_ && !desk_.withdraw(engine_.state()).empty()) {
        withdrawing_ = true;
        boost::asio::post(io_, [this] { withdraw(); });
    }
    if (auto errand = desk_.next(engine_.state(), steady_ms())) runner_.start(*std::move(errand));
}

// Runs a turn (one pass of the main loop). The turn withdraws the allocation requests that are no
// longer needed and were never sent to Slurm.
void Server::withdraw() {
    withdrawing_ = false;
    for (core::Input& input : desk_.withdraw(engine_.state())) add(std::move(input));
    turn();
}

// Adds a NodeDown input for each silent worker whose node is down according to Slurm. If a worker
// has just fallen silent (`fell_silent`), first makes the polling of Slurm faster. Adds nothing if
// State has no allocations.
void Server::hear_of_silence(bool fell_silent) {
    const core::State& state = engine_.state();
    if (fell_silent) desk_.hurry(steady_ms());
    if (state.allocations.empty()) return;
    const auto& silent = sessions_.silent(state, beacon_.published());
    for (core::Input& input : desk_.gone(state, silent, steady_ms()))
        inputs_.push_back(std::move(input));
}

void Server::take_outcome(const pilots::Outcome& outcome) {
    const std::string before = desk_.trouble();
    for (core::Input& input : desk_.take(outcome, engine_.state(), steady_ms()))
        add(std::move(input));
    if (desk_.trouble() != before) {
        if (desk_.trouble().empty())
            spdlog::info("Slurm answers again");
        else
            spdlog::warn("Slurm: {}", desk_.trouble());
    }
    turn();
}

std::chrono::milliseconds Server::until_errand() const {
    const auto wakeup = desk_.wakeup(engine_.state());
    return wakeup ? *wakeup - steady_ms() : std::chrono::hours(1);
}

}  // namespace roll::server
