// Completes a run's checkpoints in the background, one at a time, and reports each when it is
// staged (complete under a hidden name). All ranks write their parts first (part_writer.hpp).
// Deletes old checkpoints, also in the background, when newer ones are recorded. If the disk is
// full, a checkpoint is put off and training goes on. Exists only on rank 0; used from its training
// thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "worker/checkpoint/background.hpp"
#include "worker/checkpoint/choose.hpp"
#include "worker/train/process/worker_link.hpp"
#include "worker/train/save/restore.hpp"

namespace roll::train {

struct SaverOptions {
    std::filesystem::path checkpoints;  // directory of the job's checkpoints
    Token writer;
    checkpoint::Retention retention;
    // this job's checkpoints that are recorded at the start
    std::vector<checkpoint::Kept> recorded;
    std::uint64_t bytes = 0;  // upper bound of one checkpoint's size in bytes
    int ranks = 1;            // number of ranks that write parts
    formats::McaLayout layout = {};
    // true: read back and verify every byte of the first checkpoint written
    bool read_back_first = false;
};

class Saver {
  public:
    // Removes the staged and trashed directories that crashed attempts left. Checks that a
    // checkpoint can be written to the directory and that there is space for one. `model` and
    // `link` must outlive this object. Throws RankFailure, with status refused if the disk is full.
    Saver(SaverOptions options, const ModelSetup& model, WorkerLink& link);

    // Waits for the save that is running. Returns true if there is space for a checkpoint of this
    // step. Otherwise puts the checkpoint off, logs that and returns false.
    bool has_room(std::int64_t step);
    // Begins the checkpoint of `step`, which answers the newest request for one: returns the staged
    // directory, to which the ranks write their parts. Puts the checkpoint off and returns nullopt
    // if the disk is full. Requires that no save is running.
    std::optional<std::filesystem::path> begin(std::int64_t step);
    // Completes the checkpoint in the background, once all parts are written. `job`: its record.
    void seal(checkpoint::State state, std::string job);
    // Gives the checkpoint up, because the part of `rank` could not be written: puts it off if the
    // disk is full. Throws RankFailure otherwise.
    void give_up(int rank, const Error& error);
    // Records a request for a checkpoint. The numbers of requests grow within an attempt. A request
    // is pending until a checkpoint that answers it is staged.
    void ask(std::uint64_t request) { asked_ = std::max(asked_, request); }
    // Returns true if a checkpoint is to be written for a request: one is pending, the running save
    // does not answer it, and no checkpoint that was put off still waits for its retry.
    bool is_asked() const { return asked_ > answers_ && (put_off_.empty() || is_due_again()); }
    void poll();    // reports staged checkpoints; throws RankFailure unless the disk is full
    void finish();  // waits for the running save and deletion, then reports like poll()
    // Returns true if a checkpoint was put off because the disk was full and it is time to try
    // again.
    bool is_due_again() const;
    bool is_put_off() const { return !put_off_.empty(); }
    // Throws RankFailure (refused) if the last checkpoint is put off. Requires that finish() was
    // called.
    void need_saved() const;
    void recorded(std::int64_t step);
    // Marks the checkpoint of this step as the best one so far. This checkpoint replaces the
    // previous best one once rolld has recorded it.
    void best(std::int64_t step) { next_best_step_ = step; }

    // step of the last checkpoint that was begun, or -1
    std::int64_t last_step() const { return last_step_; }
    // Returns true if the last checkpoint is not recorded yet and old checkpoints can only be
    // deleted after that.
    bool pruning_is_due() const;

  private:
    using Clock = std::chrono::steady_clock;
    void settle(const Result<std::string>& outcome);
    void put_off(std::int64_t step, const std::string& why);
    void prune();
    void settle_pruning(const Result<std::string>& outcome);
    // warns that an old checkpoint cannot be deleted; logs only the first such sentence
    void warn_of_rest(const std::string& sentence);
    bool knows(std::int64_t step) const;  // true if this job's checkpoint of the step is recorded

    SaverOptions options_;
    const ModelSetup& model_;
    WorkerLink& link_;
    std::int64_t last_step_ = -1;
    std::uint64_t asked_ = 0;    // number of the newest request that is not answered, or 0
    std::uint64_t answers_ = 0;  // number of the request that the running save answers, or 0
    Clock::time_point begun_{};
    bool writing_ = false;  // true from begin() until the checkpoint is staged or given up
    std::string put_off_;   // reason why a checkpoint is put off; empty if none is put off
    Clock::time_point again_{};
    std::chrono::seconds again_after_{1};
    std::int64_t next_best_step_ = -1;
    // Number of checkpoints that are staged but not recorded in the ledger
    std::int64_t unrecorded_ = 0;
    checkpoint::Background background_;
    // The checkpoint that is being deleted or stripped of its optimizer state
    checkpoint::Name pruned_;
    bool deletes_ = false;
    // Checkpoints that could not be deleted or stripped since a checkpoint was last recorded
    std::vector<checkpoint::Name> stuck_;
    bool warned_ = false;
    checkpoint::Background pruning_;
};

}  // namespace roll::train
