// A run's checkpoints: written in the background one at a time, reported when they are staged,
// pruned (in the background, too) when newer ones are recorded. Where the disk is full, saving
// waits and training goes on.
// Only on the rank that writes; used from its training thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "worker/checkpoint/background.hpp"
#include "worker/checkpoint/choose.hpp"
#include "worker/train/snapshot.hpp"
#include "worker/train/worker_link.hpp"

namespace roll::train {

struct SaverOptions {
    std::filesystem::path checkpoints;  // the job's directory of them
    Token writer;
    checkpoint::Retention retention;
    std::vector<checkpoint::Kept> recorded;  // of this job, at start
    std::uint64_t bytes = 0;                 // of one checkpoint's tensors
    bool read_back_first = false;            // every byte of the first one
};

class Saver {
  public:
    // Sweeps away what crashed attempts left and proves that a checkpoint can be written here, with
    // room for one. `model` and `link` outlive it. Throws RankFailure, of a full disk with status
    // refused.
    Saver(SaverOptions options, const ModelSetup& model, WorkerLink& link);

    // Waits for what is in flight. Whether there is room for a checkpoint of this step; else it is
    // put off, and said.
    bool has_room(std::int64_t step);
    // Starts writing this, nothing being in flight. It answers the newest request.
    void save(Snapshot snapshot);
    // Requests of an attempt grow. One is kept until a checkpoint that answers it is staged.
    void ask(std::uint64_t request) { asked_ = std::max(asked_, request); }
    // There is a request that no save in flight answers, and it is time to try.
    bool is_asked() const { return asked_ > answers_ && (put_off_.empty() || is_due_again()); }
    void poll();    // reports what is staged. Throws RankFailure of what is no full disk's fault
    void finish();  // the same, waiting
    // One was put off, for want of room, and it is time to try again.
    bool is_due_again() const;
    bool is_put_off() const { return !put_off_.empty(); }
    // REQUIRES: finish(). Throws RankFailure (refused) if the last one is put off.
    void need_saved() const;
    void recorded(std::int64_t step);
    // The checkpoint of this step is the best: from its record on, in the place of the one before.
    void best(std::int64_t step) { next_best_step_ = step; }

    std::int64_t last_step() const { return last_step_; }  // given to save(); -1: none
    // A checkpoint of ours is not recorded yet, and pruning waits for it.
    bool pruning_is_due() const;

  private:
    using Clock = std::chrono::steady_clock;
    void settle(const Result<std::string>& outcome);
    void put_off(std::int64_t step, const std::string& why);
    void prune();
    void settle_pruning(const Result<std::string>& outcome);
    void warn_of_rest(const std::string& sentence);  // once
    bool knows(std::int64_t step) const;             // ours of this step is recorded

    SaverOptions options_;
    const ModelSetup& model_;
    WorkerLink& link_;
    std::int64_t last_step_ = -1;
    std::uint64_t asked_ = 0;    // the newest request that is not answered
    std::uint64_t answers_ = 0;  // the request that the save in flight answers, or 0
    Clock::time_point begun_{};
    std::string put_off_;  // why; empty: nothing is
    Clock::time_point again_{};
    std::chrono::seconds again_after_{1};
    std::int64_t next_best_step_ = -1;
    std::int64_t unrecorded_ = 0;  // staged, and the ledger's word is still to come
    checkpoint::Background background_;
    checkpoint::Name pruned_;  // in flight: deleted, or its optimizer state is
    bool deletes_ = false;
    std::vector<checkpoint::Name> stuck_;  // could not be, since the last record
    bool warned_ = false;
    checkpoint::Background pruning_;
};

}  // namespace roll::train
