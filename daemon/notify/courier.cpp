#include "daemon/notify/courier.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "common/files.hpp"
#include "common/number.hpp"
#include "daemon/notify/notice.hpp"

namespace roll::notify {
namespace {

constexpr int kEventsRead = 200;
// time after which work() returns, so that other targets are served
constexpr std::chrono::seconds kWorkMax{1};
// number of events that the filters may leave out before the position is written to its file again
constexpr std::int64_t kUnsavedMax = 1'000;

}  // namespace

Courier::Courier(Target target, std::filesystem::path position_file, Ask ask, Deliver deliver)
    : target_(std::move(target)),
      file_(std::move(position_file)),
      ask_(std::move(ask)),
      deliver_(std::move(deliver)) {}

Result<void> Courier::open() {
    ROLL_TRY(const Json reply, ask_("events", {{"newest", 1}}));
    const auto newest = reply.value("next", std::int64_t{0});
    position_ = newest;
    if (path_exists(file_)) {
        ROLL_TRY(std::string text, read_file(file_));
        while (!text.empty() && text.back() == '\n') text.pop_back();
        const auto kept = parse_number<std::int64_t>(text);
        if (!kept)
            return fail(ErrorCode::Corrupt,
                        file_.string() + " does not contain the number of an event",
                        "delete the file; roll-notify then starts after the newest event");
        if (*kept <= newest)
            position_ = *kept;
        else
            spdlog::warn(
                "{}: the ledger ends at event {}, before the saved position {}; roll-notify "
                "continues after the ledger's newest event",
                target_.name, newest, *kept);
    }
    saved_ = position_ - kUnsavedMax;
    advance(position_);
    return {};
}

bool Courier::work(Clock::time_point now) {
    const Clock::time_point begin = Clock::now();
    while (now >= due_) {
        const auto reply = ask_("events", {{"since", position_}, {"limit", kEventsRead}});
        if (!reply) return false;
        const Json events = reply->value("events", Json::array());
        if (events.empty()) return true;
        for (const Json& event : events) {
            if (!take(event, now)) return true;
            if (Clock::now() - begin > kWorkMax) return true;
        }
    }
    return true;
}

// Returns the summary of the event's job; null if rolld no longer stores it. Fails if rolld does
// not answer.
Result<Json> Courier::job_of(const Json& event) {
    const Json id = event.value("job", Json());
    if (!id.is_number_unsigned()) return Json();
    const auto reply = ask_("jobs", {{"selector", id.dump()},
                                     {"all", true},
                                     {"fields",
                                      {"id", "name", "kind", "user", "state", "exit_code", "reason",
                                       "output", "attempt", "nodes"}}});
    if (!reply && reply.error().code != ErrorCode::NotFound) return tl::unexpected(reply.error());
    const Json jobs = reply ? reply->value("jobs", Json::array()) : Json::array();
    return jobs.empty() ? Json() : Json(jobs[0]);
}

// Delivers an event if the target wants it. Returns false if the delivery failed.
bool Courier::take(const Json& event, Clock::time_point now) {
    const auto seq = event.value("seq", position_);
    const auto name = name_of(event);
    const auto found = name ? job_of(event) : Result<Json>(Json());
    if (!found) return false;
    const Json& job = *found;
    if (!name || !wants(target_, event, job)) {
        position_ = seq;
        if (position_ - saved_ >= kUnsavedMax) advance(seq);
        return true;
    }
    const auto done = deliver_(target_, {seq, *name, body_of(event, job)});
    if (!done) {
        if (failures_++ == 0) failing_since_ = now;
        if (now - failing_since_ < target_.give_up) {
            due_ = now + backoff(failures_);
            spdlog::warn("{}: event {} was not delivered (failure {}, next try in {} s): {}",
                         target_.name, seq, failures_, backoff(failures_).count(),
                         done.error().message);
            return false;
        }
        spdlog::error("{}: roll-notify stops trying to deliver event {}: {}", target_.name, seq,
                      done.error().message);
    }
    failures_ = 0;
    advance(seq);
    return true;
}

void Courier::advance(std::int64_t position) {
    position_ = position;
    if (position_ == saved_) return;
    if (const auto written = write_file_atomically(file_, fmt::format("{}\n", position_)))
        saved_ = position_;
    else
        spdlog::error("{}: {}", target_.name, written.error().message);
}

}  // namespace roll::notify
