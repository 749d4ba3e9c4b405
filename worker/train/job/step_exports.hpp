// Exports checkpoints while training continues (`export.every`). Exists only on rank 0.
//
// Each export runs in separate programs with a low priority: roll-convert writes the export to a
// hidden directory, and roll-rank compares its logits with those of the checkpoint. Then the
// directory gets its final name, hf-step-STEP, and rolld learns of it. No step waits for an export.
// At most one export runs, and at most one checkpoint waits to be exported. A newer due checkpoint
// replaces the waiting checkpoint.
//
// An export that fails leaves no files. An attempt that is killed leaves at most a hidden
// directory. The next attempt reports the complete exports again, and exports the newest due
// checkpoint if its export is missing.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/protocol/rank.hpp"
#include "common/spec/train/train.hpp"
#include "worker/checkpoint/background.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/save/saver.hpp"

namespace roll::train {

// The programs of the running export. If they are stopped, the export fails.
struct ExportPrograms {
    std::atomic<pid_t> pid{0};
    std::atomic<bool> stopped{false};
};

class StepExports {
  public:
    // Reports the complete exports in the job's output directory. `saver` and `link` must outlive
    // this object.
    StepExports(const protocol::Launch& launch, const spec::TrainSpec& spec,
                const ModelSetup& model, Saver& saver, WorkerLink& link);
    ~StepExports();  // ends the running export
    StepExports(const StepExports&) = delete;
    StepExports& operator=(const StepExports&) = delete;

    // Exports a checkpoint that rolld has recorded, if the checkpoint's step is due.
    void recorded(std::int64_t step, const std::filesystem::path& checkpoint);
    // Reports the export that has ended, and starts the next one. Never blocks.
    void poll();
    // Waits for the exports. Gives up when the rank is told to stop.
    void finish();

  private:
    struct Due {
        std::int64_t step = 0;
        std::filesystem::path checkpoint;
    };
    bool is_due(std::int64_t step) const;
    void start_next();
    void hold() const;
    void report(std::int64_t step) const;
    Result<std::string> make(const Due& due);
    Result<void> stage(const Due& due, const std::filesystem::path& staged);
    Result<void> run(const std::vector<std::string>& command, const std::string& what);
    std::vector<std::string> check_command(const Due& due, const std::filesystem::path& directory);

    protocol::Launch launch_;
    spec::TrainSpec spec_;
    std::string base_;
    std::vector<std::string> adapters_;
    Saver& saver_;
    WorkerLink& link_;
    std::filesystem::path folder_;  // OUTPUT/export
    std::optional<Due> running_, waiting_;
    ExportPrograms programs_;
    checkpoint::Background background_;
};

}  // namespace roll::train
