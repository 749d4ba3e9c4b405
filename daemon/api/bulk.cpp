#include "daemon/api/bulk.hpp"

#include <algorithm>
#include <utility>

#include "common/protocol/job_operations.hpp"

namespace roll::api {

using namespace std::chrono_literals;

void BulkQueue::ask(BulkRequest many) {
    pending_.push_back({.many = std::move(many), .ticket = ++ticket_});
}

Result<void> BulkQueue::ask_again(std::uint64_t ticket, Waiter waiter) {
    const auto found = std::ranges::find_if(pending_, [&](const Pending& asked) {
        return asked.ticket == ticket && asked.many.waiter.user == waiter.user;
    });
    if (found == pending_.end())
        return fail(ErrorCode::NotFound,
                    "there is no request with the ticket " + std::to_string(ticket),
                    "repeat the command; jobs already changed stay changed");
    found->many.waiter = std::move(waiter);
    found->awaited = true;
    return {};
}

bool BulkQueue::empty() const {
    return std::ranges::all_of(pending_, [](const Pending& asked) { return asked.over; });
}

void BulkQueue::add_to(std::vector<core::Input>& turn) {
    const auto working =
        std::ranges::count_if(pending_, [](const Pending& asked) { return !asked.over; });
    const std::size_t share =
        std::max<std::size_t>(1, inputs_ / std::max<std::size_t>(1, std::size_t(working)));
    for (Pending& asked : pending_) {
        const std::vector<JobId>& jobs = asked.many.jobs;
        asked.first = turn.size();
        while (asked.taken < jobs.size() && turn.size() < asked.first + share)
            asked.many.add_inputs(jobs[asked.taken++], turn);
        asked.end = turn.size();
    }
}

Answered BulkQueue::answer(Pending& asked) {
    asked.awaited = false;
    if (asked.over) return {asked.many.waiter, std::move(asked.many.answer)};
    const protocol::ProgressReply progress{asked.ticket, asked.done, asked.many.jobs.size()};
    return {asked.many.waiter,
            protocol::reply_json(progress, protocol::ProgressArgs::kOperation.reply)};
}

std::vector<Answered> BulkQueue::settle(const engine::Turn& turn, gateway::Instant now) {
    // time for which a result is kept if no client asks for it
    constexpr auto kKept = 60s;
    std::vector<Answered> settled;
    for (auto asked = pending_.begin(); asked != pending_.end();) {
        BulkRequest& many = asked->many;
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
        asked = gone ? pending_.erase(asked) : std::next(asked);
    }
    return settled;
}

void BulkQueue::pace(std::chrono::nanoseconds turn, std::chrono::nanoseconds commit) {
    if (empty()) return;
    const auto most = std::clamp<std::chrono::nanoseconds>(commit, 8ms, 24ms);
    if (turn > most) inputs_ = std::max(kInputsMin, inputs_ / 2);
    if (turn < most * 3 / 8) inputs_ = std::min(kInputsMax, inputs_ * 2);
}

}  // namespace roll::api
