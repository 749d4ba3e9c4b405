// The trainer's checkpoints.
#include <ATen/ATen.h>

#include "worker/train/job/faults.hpp"
#include "worker/train/job/trainer.hpp"
#include "worker/train/save/first_error.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

using namespace std::chrono_literals;

constexpr auto kRecordPatience = 3s;  // longest wait for rolld to record the last checkpoint

}  // namespace

// Returns an upper bound of a checkpoint's size in bytes. Counts the parts of all ranks, and the
// files without tensors.
std::uint64_t Trainer::checkpoint_bytes(const std::optional<formats::DcpMetadata>& dist) {
    constexpr std::int64_t kOfRank = 1 << 13, kOfFiles = 1 << 16;
    const at::Tensor all = at::tensor({part_->bytes() + kOfRank}, at::kLong);
    sum_over(*world_, all, {Site::Agreement});
    std::int64_t bytes = all.item<std::int64_t>() + kOfFiles + std::ssize(record_);
    for (const auto& [name, content] : model_.companions) bytes += std::ssize(content);
    // The metadata file also lists the extra states of the modules. There are fewer extra states
    // than tensors, so twice the size without extra states is enough.
    if (dist) bytes += 2 * std::ssize(formats::dcp_metadata_pickle(*dist));
    return static_cast<std::uint64_t>(bytes);
}

// Saves a checkpoint, if rank 0 decides to. In that case, all ranks write their parts.
void Trainer::save(Save when) {
    const PhaseScope saving(clock_, Phase::Save);
    finish_part();
    const at::Tensor saves = at::zeros({}, at::kDouble);
    if (saver_ && (when == Save::Always || saver_->last_step() != state_.step)) {
        metrics_->sync();
        if (saver_->has_room(state_.step) && saver_->begin(state_.step)) saves.fill_(1);
    }
    broadcast_from(0, *world_, saves, {Site::Agreement});
    if (saves.item<double>() == 0) return;
    activity_ = Activity::Checkpoint;
    inject_faults(spec_.faults, rank_, state_.step, spec::FaultPhase::Save, *step_);
    if (fills_disk(spec_.faults, rank_, state_.step)) part_->fail_next();
    saving_ = state_;
    const checkpoint::Name name{state_.step, launch_.attempt.token};
    part_->start(fs::path(launch_.output) / "checkpoints" / checkpoint::staged_name(name), name);
}

// Waits until all ranks have written their parts of the checkpoint that is being saved.
void Trainer::finish_part() {
    if (!part_->is_running()) return;
    const at::Tensor failed = at::zeros({}, at::kDouble);
    part_->wait();
    if (part_->has_failed()) failed.fill_(1);
    sum_over(*world_, failed, {Site::Agreement});
    conclude_parts(failed.item<double>() > 0);
}

// Ends a save after every rank has written its part or has failed to do so. If a rank has failed,
// sends the reason to rank 0.
void Trainer::conclude_parts(bool failed) {
    const Result<void> own = part_->take();
    if (!failed) {
        if (saver_) saver_->seal(*std::exchange(saving_, std::nullopt), record_);
        return;
    }
    saving_.reset();
    const std::optional<RankError> first = first_error(*world_, own);
    if (saver_) saver_->give_up(first->rank, first->error);
}

// Waits a short time for rolld to record the last checkpoint. Only after that, retention deletes an
// older checkpoint, the hook `save` runs, and an export of the checkpoint begins.
void Trainer::await_recorded() {
    const auto deadline = Clock::now() + kRecordPatience;
    const auto unsaid = [&] {
        return (hooks_.has("save") || exports_) && said_saved_ != saver_->last_step();
    };
    while (link_.connected() && (saver_->pruning_is_due() || unsaid()) && Clock::now() < deadline) {
        link_.await_line(100ms);
        take_recorded(link_.poll().recorded);
    }
    saver_->finish();
}

}  // namespace roll::train
