#include "worker/train/save/saver.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "worker/checkpoint/staging.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kAgainMax{60};

std::string mib(std::uint64_t bytes) {
    char text[64];
    std::snprintf(text, sizeof text, "%.4g MiB", static_cast<double>(bytes) / (1 << 20));
    return text;
}

// Returns the free disk space in bytes. Returns nullopt if the file system does not report the free
// space. A save then does not check for space.
std::optional<std::uint64_t> free_bytes(const fs::path& directory) {
    std::error_code error;
    const fs::space_info space = fs::space(directory, error);
    return error ? std::nullopt : std::optional<std::uint64_t>(space.available);
}

std::string no_room(const fs::path& directory, std::uint64_t free, std::uint64_t bytes) {
    return "no space for a checkpoint: " + directory.string() + " has " + mib(free) +
           " free, but the checkpoint needs " + mib(bytes);
}

}  // namespace

Saver::Saver(SaverOptions options, const ModelSetup& model, WorkerLink& link)
    : options_(std::move(options)),
      model_(model),
      link_(link) {
    const auto swept = need(checkpoint::sweep(options_.checkpoints, options_.writer));
    if (swept.removed > 0)
        std::printf("unfinished checkpoints of earlier attempts that were removed: %d\n",
                    swept.removed);
    for (const std::string& sentence : swept.left) warn_of_rest(sentence);
    need(checkpoint::prove(options_.checkpoints, options_.writer));
    const auto free = free_bytes(options_.checkpoints);
    if (free && *free < options_.bytes)
        throw RankFailure(protocol::kExitRefused,
                          "output: " + no_room(options_.checkpoints, *free, options_.bytes) +
                              "; free disk space, or set output to another file system");
    // The disk must have space for all checkpoints that retention keeps and for one more, because
    // the newest checkpoint is written before the oldest is deleted.
    const std::int64_t more = options_.retention.keep + 1 - std::ssize(options_.recorded);
    const auto all = static_cast<std::uint64_t>(std::max<std::int64_t>(more, 1)) * options_.bytes;
    if (free && *free < all)
        std::printf("warning: %s has %s free, but the job's checkpoints will need %s\n",
                    options_.checkpoints.c_str(), mib(*free).c_str(), mib(all).c_str());
}

void Saver::put_off(std::int64_t step, const std::string& why) {
    last_step_ = -1;
    answers_ = 0;
    if (put_off_.empty())
        std::printf("the checkpoint of step %lld is postponed, and training continues: %s\n",
                    static_cast<long long>(step), why.c_str());
    put_off_ = why;
    again_ = Clock::now() + again_after_;
    again_after_ = std::min(2 * again_after_, kAgainMax);
}

void Saver::settle(const Result<std::string>& outcome) {
    writing_ = false;
    if (!outcome && outcome.error().code == ErrorCode::Refused)
        return put_off(last_step_, sentence_of(outcome.error()));
    if (!outcome) {
        throw RankFailure(status_of(outcome.error().code),
                          "the checkpoint of step " + std::to_string(last_step_) +
                              " could not be written: " + sentence_of(outcome.error()));
    }
    std::printf("checkpoint of step %lld staged%s\n", static_cast<long long>(last_step_),
                std::exchange(options_.read_back_first, false) ? ", and read back" : "");
    put_off_.clear();
    ++unrecorded_;
    again_after_ = std::chrono::seconds(1);
    const auto took = Clock::now() - begun_;
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(took).count();
    link_.report(protocol::CheckpointStaged{last_step_, *outcome, answers_, ms});
    if (asked_ == answers_) asked_ = 0;
    answers_ = 0;
}

bool Saver::has_room(std::int64_t step) {
    if (const auto outcome = background_.wait()) settle(*outcome);
    auto free = free_bytes(options_.checkpoints);
    if (free && *free < options_.bytes && pruning_.busy()) {
        finish();
        free = free_bytes(options_.checkpoints);
    }
    if (!free || *free >= options_.bytes) return true;
    put_off(step, no_room(options_.checkpoints, *free, options_.bytes));
    return false;
}

std::optional<fs::path> Saver::begin(std::int64_t step) {
    answers_ = asked_;
    begun_ = Clock::now();
    last_step_ = step;
    auto staged = checkpoint::begin_stage(options_.checkpoints, {step, options_.writer});
    writing_ = staged.has_value();
    if (staged) return *std::move(staged);
    settle(tl::unexpected(staged.error()));
    return std::nullopt;
}

void Saver::seal(checkpoint::State state, std::string job) {
    const checkpoint::Name name{last_step_, options_.writer};
    background_.start([this, name, state = std::move(state), job = std::move(job),
                       read_back = options_.read_back_first]() -> Result<std::string> {
        const auto fill = [&](const fs::path& directory) {
            return write_head_files(directory, model_, options_.layout, state, job,
                                    options_.dist ? &*options_.dist : nullptr);
        };
        ROLL_TRY(const fs::path staged,
                 checkpoint::seal_parts(options_.checkpoints, name, options_.ranks, fill));
        if (read_back) ROLL_TRY_VOID(checkpoint::verify(staged));
        return staged.string();
    });
}

void Saver::give_up(int rank, const Error& error) {
    checkpoint::drop_stage(options_.checkpoints, {last_step_, options_.writer});
    settle(fail(error.code, "rank " + std::to_string(rank) + ": " + error.message, error.hint));
}

void Saver::poll() {
    if (const auto outcome = background_.poll()) settle(*outcome);
    if (const auto outcome = pruning_.poll()) settle_pruning(*outcome);
}

void Saver::finish() {
    if (const auto outcome = background_.wait()) settle(*outcome);
    while (const auto outcome = pruning_.wait()) settle_pruning(*outcome);
}

bool Saver::is_due_again() const {
    return !put_off_.empty() && !writing_ && Clock::now() >= again_;
}

void Saver::need_saved() const {
    if (put_off_.empty()) return;
    std::int64_t newest = -1;
    for (const checkpoint::Kept& kept : options_.recorded)
        newest = std::max(newest, kept.name.step);
    throw RankFailure(
        protocol::kExitRefused,
        "the last checkpoint could not be written: " + put_off_ +
            (newest < 0 ? "; there is no earlier checkpoint"
                        : "; the newest saved checkpoint is of step " + std::to_string(newest)) +
            (newest < 0 ? "; free some disk space, then submit the job again"
                        : "; free some disk space, then continue from this checkpoint with rollctl "
                          "resume"));
}

bool Saver::knows(std::int64_t step) const {
    const checkpoint::Name ours{step, options_.writer};
    return std::any_of(options_.recorded.begin(), options_.recorded.end(),
                       [&](const checkpoint::Kept& kept) { return kept.name == ours; });
}

void Saver::recorded(std::int64_t step) {
    if (knows(step)) return;
    --unrecorded_;
    options_.recorded.push_back({{step, options_.writer}});
    if (step == next_best_step_) options_.retention.best_step = step;
    stuck_.clear();
    prune();
}

void Saver::hold(std::vector<std::int64_t> steps) {
    held_ = std::move(steps);
    prune();
}

// Starts to delete or strip one checkpoint that retention does not keep. Handles only one at a
// time, because some file systems need a long time to delete many large files.
void Saver::prune() {
    if (pruning_.busy()) return;
    const auto next_of = [&](const std::vector<checkpoint::Name>& names) {
        const auto next = std::find_if(names.begin(), names.end(), [&](const auto& name) {
            return std::find(stuck_.begin(), stuck_.end(), name) == stuck_.end() &&
                   std::find(held_.begin(), held_.end(), name.step) == held_.end();
        });
        return next == names.end() ? std::nullopt : std::optional(*next);
    };
    const auto doomed = next_of(checkpoint::to_delete(options_.recorded, options_.retention));
    const auto stripped = next_of(checkpoint::to_strip(options_.recorded, options_.retention));
    if (!doomed && !stripped) return;
    pruned_ = doomed ? *doomed : *stripped;
    deletes_ = doomed.has_value();
    pruning_.start([folder = options_.checkpoints, name = pruned_,
                    deletes = deletes_]() -> Result<std::string> {
        ROLL_TRY_VOID(deletes ? checkpoint::remove(folder, name)
                              : checkpoint::drop_optimizer(folder, name));
        return std::string();
    });
}

// Handles the end of deleting or stripping one checkpoint. If this has failed (e.g. because a file
// is still open on NFS), the checkpoint stays in the list. Roll tries again when the next
// checkpoint is recorded.
void Saver::settle_pruning(const Result<std::string>& outcome) {
    auto& all = options_.recorded;
    const auto is_it = [&](const checkpoint::Kept& kept) { return kept.name == pruned_; };
    if (!outcome) {
        stuck_.push_back(pruned_);
        warn_of_rest(sentence_of(outcome.error()));
    } else if (deletes_) {
        std::erase_if(all, is_it);
        link_.report(protocol::CheckpointPruned{pruned_.step, pruned_.writer});
    } else {
        std::find_if(all.begin(), all.end(), is_it)->optimizer = false;
        std::printf("checkpoint of step %lld: the optimizer state was deleted, the weights stay\n",
                    static_cast<long long>(pruned_.step));
    }
    prune();
}

void Saver::warn_of_rest(const std::string& sentence) {
    if (std::exchange(warned_, true)) return;
    std::printf("warning: an old checkpoint cannot be deleted yet, but training continues: %s\n",
                sentence.c_str());
}

bool Saver::pruning_is_due() const {
    const checkpoint::Retention& rule = options_.retention;
    const std::int64_t count = std::ssize(options_.recorded) + unrecorded_;
    const bool strips = rule.optimizer > 0 && count > rule.optimizer;
    return last_step_ >= 0 && !knows(last_step_) && (strips || count > rule.keep);
}

}  // namespace roll::train
