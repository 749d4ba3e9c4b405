// A run's checkpoints: written in the background one at a time, reported when they are staged,
// pruned when newer ones are recorded. Only on the rank that writes; used from its training thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <vector>

#include "worker/checkpoint/background.hpp"
#include "worker/checkpoint/choose.hpp"
#include "worker/train/snapshot.hpp"
#include "worker/train/worker_link.hpp"

namespace roll::train {

struct SaverOptions {
    std::filesystem::path checkpoints;  // the job's directory of them
    Token writer;
    std::int64_t keep = 2;
    std::vector<checkpoint::Kept> recorded;  // of this job, at start
    std::optional<checkpoint::Name> resumed_from;
    std::optional<std::int64_t> best_step = std::nullopt;  // stays besides `keep`
};

class Saver {
  public:
    // Sweeps away what crashed attempts left. `model` and `link` outlive it.
    Saver(SaverOptions options, const ModelSetup& model, WorkerLink& link);

    // Waits for the one in flight, then starts writing this. Throws RankFailure of the one before.
    // `asked`: the request that it answers, or 0.
    void save(Snapshot snapshot, std::uint64_t asked = 0);
    void poll();    // reports what is staged. Throws RankFailure: full disk, ...
    void finish();  // the same, waiting
    void recorded(std::int64_t step);
    // The checkpoint of this step is the best: from its record on, in the place of the one before.
    void best(std::int64_t step) { next_best_step_ = step; }

    std::int64_t last_step() const { return last_step_; }  // given to save(); -1: none
    // A checkpoint of ours is not recorded yet, and pruning waits for it.
    bool pruning_is_due() const;

  private:
    void settle(const Result<std::string>& outcome);

    SaverOptions options_;
    const ModelSetup& model_;
    WorkerLink& link_;
    std::int64_t last_step_ = -1;
    std::uint64_t asked_ = 0;  // of last_step_
    std::chrono::steady_clock::time_point begun_{};
    std::int64_t next_best_step_ = -1;
    checkpoint::Background background_;
};

}  // namespace roll::train
