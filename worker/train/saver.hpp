// Writes a run's checkpoints in the background, one at a time, reports each when it is staged, and
// prunes old ones (also in the background) when newer ones are recorded. On a full disk a
// checkpoint is put off and training goes on.
// Exists only on the rank that writes; used from its training thread.
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
    std::filesystem::path checkpoints;  // the job's directory of checkpoints
    Token writer;
    checkpoint::Retention retention;
    std::vector<checkpoint::Kept> recorded;  // this job's, at the start
    std::uint64_t bytes = 0;                 // size of one checkpoint's tensors
    bool read_back_first = false;            // verify every byte of the first one
};

class Saver {
  public:
    // Removes what crashed attempts left and checks that a checkpoint can be written here, with
    // space for one. `model` and `link` must outlive this. Throws RankFailure, with status refused
    // if the disk is full.
    Saver(SaverOptions options, const ModelSetup& model, WorkerLink& link);

    // Waits for the save in flight. Returns true if there is space for a checkpoint of this step;
    // otherwise puts it off and logs that.
    bool has_room(std::int64_t step);
    // Starts writing `snapshot`. REQUIRES: no save in flight. It answers the newest request.
    void save(Snapshot snapshot);
    // Records a request for a checkpoint. Numbers grow within an attempt. A request is pending
    // until a checkpoint that answers it is staged.
    void ask(std::uint64_t request) { asked_ = std::max(asked_, request); }
    // True if a request is pending that the save in flight does not answer, and no retry delay
    // applies.
    bool is_asked() const { return asked_ > answers_ && (put_off_.empty() || is_due_again()); }
    void poll();    // reports staged ones. Throws RankFailure unless the disk is full
    void finish();  // same, but waits
    // True if a checkpoint was put off for lack of space and its retry is due.
    bool is_due_again() const;
    bool is_put_off() const { return !put_off_.empty(); }
    // REQUIRES: finish(). Throws RankFailure (refused) if the last checkpoint is put off.
    void need_saved() const;
    void recorded(std::int64_t step);
    // Marks the checkpoint of this step as the best, replacing the previous one once it is
    // recorded.
    void best(std::int64_t step) { next_best_step_ = step; }

    std::int64_t last_step() const { return last_step_; }  // last step passed to save(), or -1
    // True if a checkpoint of this job is not recorded yet and pruning waits for it.
    bool pruning_is_due() const;

  private:
    using Clock = std::chrono::steady_clock;
    void settle(const Result<std::string>& outcome);
    void put_off(std::int64_t step, const std::string& why);
    void prune();
    void settle_pruning(const Result<std::string>& outcome);
    void warn_of_rest(const std::string& sentence);  // logs the first only
    bool knows(std::int64_t step) const;             // our checkpoint of this step is recorded

    SaverOptions options_;
    const ModelSetup& model_;
    WorkerLink& link_;
    std::int64_t last_step_ = -1;
    std::uint64_t asked_ = 0;    // newest unanswered request, or 0
    std::uint64_t answers_ = 0;  // request that the save in flight answers, or 0
    Clock::time_point begun_{};
    std::string put_off_;  // reason; empty if none is put off
    Clock::time_point again_{};
    std::chrono::seconds again_after_{1};
    std::int64_t next_best_step_ = -1;
    std::int64_t unrecorded_ = 0;  // staged but not recorded in the ledger yet
    checkpoint::Background background_;
    checkpoint::Name pruned_;  // in flight: being deleted or stripped of its optimizer state
    bool deletes_ = false;
    std::vector<checkpoint::Name> stuck_;  // could not be pruned since the last record
    bool warned_ = false;
    checkpoint::Background pruning_;
};

}  // namespace roll::train
