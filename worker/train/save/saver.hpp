// Completes a run's checkpoints in the background, one at a time, and reports each checkpoint when
// it is staged (complete under a hidden name). All ranks write their parts first (part_writer.hpp).
// When newer checkpoints are recorded, deletes old ones, also in the background. If the disk is
// full, a checkpoint is delayed, and training continues. Exists only on rank 0; used from the
// training thread.
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
    // checkpoints of this job that are recorded when the run starts
    std::vector<checkpoint::Kept> recorded;
    std::uint64_t bytes = 0;  // upper bound of one checkpoint's size in bytes
    int ranks = 1;            // number of ranks that write parts
    formats::McaLayout layout = {};
    // true: read back and verify every byte of the first checkpoint written
    bool read_back_first = false;
    // metadata of the checkpoints, if they have the format torch_dist
    std::optional<formats::DcpMetadata> dist = std::nullopt;
};

class Saver {
  public:
    // Removes the staged and trashed directories of crashed attempts. Checks that the directory is
    // writable and has space for a checkpoint. `model` and `link` must outlive this object. Throws
    // RankFailure; if the disk is full, its status is refused.
    Saver(SaverOptions options, const ModelSetup& model, WorkerLink& link);

    // Waits for the running save. Returns true if there is space for a checkpoint of this step,
    // possibly after the running deletion. Otherwise, delays the checkpoint, logs that, and returns
    // false.
    bool has_room(std::int64_t step);
    // Begins the checkpoint of `step`. The checkpoint answers the newest request for a checkpoint.
    // Returns the staged directory for the parts of the ranks. If the disk is full, delays the
    // checkpoint and returns nullopt. Requires that no save is running.
    std::optional<std::filesystem::path> begin(std::int64_t step);
    // Completes the checkpoint in the background. Must be called when all parts are written. `job`:
    // the job record.
    void seal(checkpoint::State state, std::string job);
    // Ends the save because the part of `rank` could not be written. If the disk is full, delays
    // the checkpoint. Otherwise, throws RankFailure.
    void give_up(int rank, const Error& error);
    // Records a request for a checkpoint. The numbers of requests grow within an attempt. A request
    // is pending until a checkpoint that answers it is staged.
    void ask(std::uint64_t request) { asked_ = std::max(asked_, request); }
    // Returns true if a checkpoint should be written now to answer a request. There must be a
    // request that the running save does not answer. If a checkpoint is delayed, it must also be
    // time to try again.
    bool is_asked() const { return asked_ > answers_ && (put_off_.empty() || is_due_again()); }
    // Reports staged checkpoints. Throws RankFailure if a save failed, except on a full disk.
    void poll();
    void finish();  // waits for the running save and deletion, then reports like poll()
    // Returns true if a checkpoint was delayed because the disk was full, and it is time to try
    // again.
    bool is_due_again() const;
    bool is_put_off() const { return !put_off_.empty(); }
    // Returns why a checkpoint is delayed; empty if none is delayed.
    const std::string& why_put_off() const { return put_off_; }
    // Throws RankFailure (refused) if the last checkpoint is still delayed. Requires that finish()
    // was called.
    void need_saved() const;
    void recorded(std::int64_t step);
    // Keeps the checkpoints of these steps whole, in place of the steps of the last call.
    void hold(std::vector<std::int64_t> steps);
    // Marks the checkpoint of this step as the best one so far. The new checkpoint replaces the
    // previous best checkpoint when rolld has recorded the new one.
    void best(std::int64_t step) { next_best_step_ = step; }

    // step of the last checkpoint that was begun, or -1
    std::int64_t last_step() const { return last_step_; }
    // Returns true if the last checkpoint is not recorded yet, and old checkpoints can be deleted
    // only after that checkpoint is recorded.
    bool pruning_is_due() const;

  private:
    using Clock = std::chrono::steady_clock;
    void settle(const Result<std::string>& outcome);
    void put_off(std::int64_t step, const std::string& why);
    void prune();
    void settle_pruning(const Result<std::string>& outcome);
    // Logs a warning that an old checkpoint cannot be deleted, with `sentence` as the reason. Later
    // calls do nothing.
    void warn_of_rest(const std::string& sentence);
    bool knows(std::int64_t step) const;  // true if this job's checkpoint of the step is recorded

    SaverOptions options_;
    const ModelSetup& model_;
    WorkerLink& link_;
    std::vector<std::int64_t> held_;  // steps of the checkpoints that must stay whole
    std::int64_t last_step_ = -1;
    std::uint64_t asked_ = 0;    // number of the newest request that is not answered, or 0
    std::uint64_t answers_ = 0;  // number of the request that the running save answers, or 0
    Clock::time_point begun_{};
    bool writing_ = false;  // true from begin() until the checkpoint is staged or given up
    std::string put_off_;   // reason why a checkpoint is delayed; empty if none is delayed
    Clock::time_point again_{};
    std::chrono::seconds again_after_{1};
    std::int64_t next_best_step_ = -1;
    // Number of checkpoints that are staged but not yet recorded by rolld
    std::int64_t unrecorded_ = 0;
    checkpoint::Background background_;
    // The checkpoint that is now being deleted or stripped of its optimizer state
    checkpoint::Name pruned_;
    bool deletes_ = false;
    // Checkpoints whose deletion or stripping has failed since the last checkpoint was recorded
    std::vector<checkpoint::Name> stuck_;
    bool warned_ = false;
    checkpoint::Background pruning_;
};

}  // namespace roll::train
