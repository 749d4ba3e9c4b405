#include "daemon/server/shares.hpp"

#include <algorithm>
#include <utility>

namespace roll::server {

using namespace std::chrono_literals;

void Shares::ask(Many many) { asked_.push_back({.many = std::move(many), .ticket = ++ticket_}); }

Result<void> Shares::ask_again(std::uint64_t ticket, Waiter waiter) {
    const auto found = std::ranges::find_if(asked_, [&](const Asked& asked) {
        return asked.ticket == ticket && asked.many.waiter.user == waiter.user;
    });
    if (found == asked_.end())
        return fail(ErrorCode::NotFound, "there is no request " + std::to_string(ticket),
                    "repeat the command; jobs already changed stay changed");
    found->many.waiter = std::move(waiter);
    found->awaited = true;
    return {};
}

bool Shares::empty() const {
    return std::ranges::all_of(asked_, [](const Asked& asked) { return asked.over; });
}

void Shares::add_to(std::vector<core::Input>& turn) {
    const auto working =
        std::ranges::count_if(asked_, [](const Asked& asked) { return !asked.over; });
    const std::size_t share =
        std::max<std::size_t>(1, inputs_ / std::max<std::size_t>(1, std::size_t(working)));
    for (Asked& asked : asked_) {
        const std::vector<JobId>& jobs = asked.many.jobs;
        asked.first = turn.size();
        while (asked.taken < jobs.size() && turn.size() < asked.first + share)
            asked.many.add_inputs(jobs[asked.taken++], turn);
        asked.end = turn.size();
    }
}

Settled Shares::answer(Asked& asked) {
    asked.awaited = false;
    if (asked.over) return {asked.many.waiter, std::move(asked.many.answer)};
    return {asked.many.waiter, Json{{"schema", "roll.progress/1"},
                                    {"ticket", asked.ticket},
                                    {"done", asked.done},
                                    {"jobs", asked.many.jobs.size()}}};
}

std::vector<Settled> Shares::settle(const engine::Turn& turn, gateway::Instant now) {
    // time for which a result is kept if the client does not ask for it
    constexpr auto kKept = 60s;
    std::vector<Settled> settled;
    for (auto asked = asked_.begin(); asked != asked_.end();) {
        Many& many = asked->many;
        for (std::size_t i = asked->first; i < asked->end; ++i) {
            const auto& reply = turn.replies[i];
            if (!reply && many.answer) many.answer = tl::unexpected(reply.error());
        }
        asked->first = asked->end;
        asked->done = asked->taken;
        if (!asked->over && asked->done == many.jobs.size()) {
            asked->over = true;
            asked->over_at = now;
        }
        const bool late = many.waiter.until && now >= *many.waiter.until;
        const bool told = asked->awaited && (asked->over || late);
        if (told) settled.push_back(answer(*asked));
        const bool gone = asked->over && (told || now - asked->over_at > kKept);
        asked = gone ? asked_.erase(asked) : std::next(asked);
    }
    return settled;
}

void Shares::pace(std::chrono::nanoseconds turn, std::chrono::nanoseconds commit) {
    if (empty()) return;
    const auto most = std::clamp<std::chrono::nanoseconds>(commit, 8ms, 24ms);
    if (turn > most) inputs_ = std::max(kInputsMin, inputs_ / 2);
    if (turn < most * 3 / 8) inputs_ = std::min(kInputsMax, inputs_ * 2);
}

}  // namespace roll::server
