// AgentCore handles the reports of programs here, and gives checkpoints their final names.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "worker/agent/core/agent_core.hpp"

namespace roll::agent {
namespace {

constexpr std::size_t kReasonBytesMax = 1000;

// Returns the final path that belongs to a staged checkpoint's path: ".../step-7.3-1" for
// ".../.step-7.3-1". Empty if `staged` is not a staged path.
std::string final_name(const std::string& staged) {
    const std::filesystem::path path(staged);
    const std::string name = path.filename().string();
    if (!path.is_absolute() || !name.starts_with(".step-")) return {};
    return (path.parent_path() / name.substr(1)).string();
}

}  // namespace

void AgentCore::on_report(const AttemptKey& key, int rank, const protocol::Report& report,
                          Instant now) {
    Attempt* const attempt = find(key);
    if (attempt == nullptr || rank < 0 || rank >= static_cast<int>(attempt->ranks.size())) return;
    Rank& who = attempt->ranks[rank];
    if (std::holds_alternative<protocol::Ready>(report)) {
        who.ready = true;
        attempt->alive = now;
        if (attempt->phase != Phase::Starting || !all_ready(*attempt)) return;
        attempt->phase = Phase::Running;
        effects_.push_back(HeartbeatNow{});
    } else if (const auto* progress = std::get_if<protocol::Progress>(&report)) {
        if (attempt->progress != progress->json) attempt->alive = now;
        attempt->progress = progress->json;
        if (std::string skipped = skipped_text(progress->json); !skipped.empty())
            attempt->skipped = std::move(skipped);
    } else if (const auto* step = std::get_if<protocol::StepDone>(&report)) {
        if (attempt->ranked())
            note_step(attempt->steps[static_cast<std::size_t>(rank)], step->step, step->steps,
                      step->own_ms, now);
    } else if (const auto* failed = std::get_if<protocol::Failed>(&report)) {
        who.failure = failed->message.substr(0, kReasonBytesMax);
    } else if (const auto* exported = std::get_if<protocol::ExportDone>(&report)) {
        attempt->exported = exported->directory;
        effects_.push_back(Remember{entry_of(*attempt)});
        effects_.push_back(HeartbeatNow{});
    } else if (const auto* one = std::get_if<protocol::CheckpointExported>(&report)) {
        attempt->exports.push_back(one->written);
        effects_.push_back(Remember{entry_of(*attempt)});
        effects_.push_back(HeartbeatNow{});
    } else if (const auto* answered = std::get_if<protocol::Answered>(&report)) {
        take_answer(*attempt, answered->answer);
    } else if (const auto* pruned = std::get_if<protocol::CheckpointPruned>(&report)) {
        attempt->unrecorded.push_back(
            {{pruned->step, "", true, pruned->writer, 0, 0}, std::nullopt});
        effects_.push_back(Remember{entry_of(*attempt)});
    } else if (const auto* staged = std::get_if<protocol::CheckpointStaged>(&report)) {
        std::string to = final_name(staged->directory);
        if (to.empty()) {
            effects_.push_back(Note{
                label(key) + ": the report names a directory that is not a staged checkpoint: " +
                staged->directory});
            return;
        }
        attempt->staged.push_back(
            {staged->step, staged->directory, std::move(to), staged->asked, staged->save_ms});
        publish(*attempt, now);
    }
}

void AgentCore::publish(Attempt& attempt, Instant now) {
    const bool fenced = attempt.stop && attempt.stop->cause == StopCause::Fenced;
    if (attempt.staged.empty() || attempt.publishing || fenced) return;
    if (attempt.bound.at(now) >= rules_.lease) return;
    const Staged& next = attempt.staged.front();
    attempt.publishing = true;
    effects_.push_back(Publish{attempt.order.attempt, next.step, next.from, next.to,
                               attempt.bound.lease_ends(rules_)});
}

void AgentCore::on_published(const AttemptKey& key, std::int64_t step, const Result<void>& done,
                             Instant now) {
    Attempt* const attempt = find(key);
    if (attempt == nullptr || attempt->staged.empty() || !attempt->publishing) return;
    attempt->publishing = false;
    const bool too_late = !done && done.error().code == ErrorCode::Unavailable;
    if (!too_late) {
        const Staged staged = attempt->staged.front();
        attempt->staged.pop_front();
        if (done) {
            attempt->unrecorded.push_back(
                {{step, staged.to, false, std::nullopt, staged.asked, staged.save_ms},
                 std::nullopt});
            effects_.push_back(Remember{entry_of(*attempt)});
            effects_.push_back(HeartbeatNow{});
        } else {
            effects_.push_back(Note{label(key) + ": " + done.error().message});
            // allow the client to repeat the save request
            if (staged.asked == attempt->asked) attempt->asked = 0;
        }
    }
    attempt->gone ? conclude(*attempt, now) : publish(*attempt, now);
}

}  // namespace roll::agent
