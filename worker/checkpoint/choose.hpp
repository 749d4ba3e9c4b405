// Chooses the checkpoint that a run starts from, and the checkpoints that may be deleted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/checkpoint/manifest.hpp"

namespace roll::checkpoint {

struct Choice {
    // the chosen checkpoint; nullopt if none is suitable
    std::optional<std::filesystem::path> directory;
    Manifest manifest;                           // manifest of `directory`
    std::vector<std::filesystem::path> skipped;  // newer checkpoints that were not chosen
    // for each of `skipped`, one sentence that says why it was not chosen
    std::vector<std::string> reasons;
    // the checkpoints in `skipped` whose bytes do not match their manifest
    std::vector<std::filesystem::path> damaged;
};

// Returns the step with the best value of the job's metric train.best, by default the validation
// loss; nullopt if no value is recorded. Reads only the newest readable state.json, because each
// attempt takes over the best value of the attempt before.
std::optional<std::int64_t> best_step(std::span<const std::filesystem::path> newest_first);

// Returns the directories in a new order: first the checkpoints of `step`, then the other
// checkpoints in their previous order. Pure.
std::vector<std::filesystem::path> with_step_first(
    std::span<const std::filesystem::path> newest_first, std::int64_t step);

// purpose for which a checkpoint is chosen: to load only its weights, or to resume training
enum class For { Weights, Resume };

// Verifies a checkpoint and returns its manifest.
using Verify = std::function<Result<Manifest>(const std::filesystem::path& directory)>;

// Returns the first of `newest_first` whose bytes all match its manifest. If `use` is Resume, the
// checkpoint must also have optimizer state. Reads the files.
Choice choose_newest(
    std::span<const std::filesystem::path> newest_first, For use = For::Weights,
    const Verify& verify_one = [](const auto& directory) { return verify(directory); });

// A recorded checkpoint of the job, with the properties that decide whether it is kept.
struct Kept {
    Name name;
    bool usable = true;     // false: the checkpoint was damaged when the attempt started
    bool optimizer = true;  // false: the checkpoint's optimizer state was deleted
    friend bool operator==(const Kept&, const Kept&) = default;
};

// The rule that decides which of a job's checkpoints are kept. Checkpoints are ordered by step, and
// checkpoints of the same step by writer. The newest checkpoint is the last.
struct Retention {
    std::int64_t keep = 2;  // keep this many of the newest checkpoints; at least 1
    // also keep the newest checkpoint of each step that is a multiple of this number; 0: off
    std::int64_t keep_every = 0;
    // keep the optimizer state of this many of the newest checkpoints; 0: of all checkpoints
    std::int64_t optimizer = 0;
    // the checkpoint that the run resumed from; it is kept until a newer checkpoint is recorded
    std::optional<Name> resumed_from = std::nullopt;
    // the newest checkpoint of this step is kept
    std::optional<std::int64_t> best_step = std::nullopt;
};

// Returns the checkpoints of `recorded` that may be deleted. Damaged checkpoints do not count
// towards `keep`. They may be deleted once there is a usable checkpoint. Pure.
std::vector<Name> to_delete(std::vector<Kept> recorded, const Retention& rule);

// Returns the checkpoints of `recorded` whose optimizer state may be deleted. Pure.
std::vector<Name> to_strip(std::vector<Kept> recorded, const Retention& rule);

}  // namespace roll::checkpoint
