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
    // one sentence for each of `skipped`, which says why it was not chosen
    std::vector<std::string> reasons;
    // checkpoints of `skipped` whose bytes do not verify
    std::vector<std::filesystem::path> damaged;
};

// Returns the step with the lowest validation loss, from the state of the newest readable
// checkpoint; nullopt if that state has no validation. It suffices to read one state, because each
// attempt continues the record of the previous one.
std::optional<std::int64_t> best_step(std::span<const std::filesystem::path> newest_first);

// Returns the directories reordered: the checkpoints of `step` first, the others in their previous
// order. Pure.
std::vector<std::filesystem::path> with_step_first(
    std::span<const std::filesystem::path> newest_first, std::int64_t step);

// the use of a chosen checkpoint: only its weights, or to resume training
enum class For { Weights, Resume };

// Verifies a checkpoint and returns its manifest.
using Verify = std::function<Result<Manifest>(const std::filesystem::path& directory)>;

// Returns the first of `newest_first` whose bytes all verify. For Resume, the checkpoint must also
// have optimizer state. Reads the files.
Choice choose_newest(
    std::span<const std::filesystem::path> newest_first, For use = For::Weights,
    const Verify& verify_one = [](const auto& directory) { return verify(directory); });

// A recorded checkpoint of the job, with the properties that decide if it is kept.
struct Kept {
    Name name;
    bool usable = true;     // false: the checkpoint was damaged when the attempt started
    bool optimizer = true;  // false: the checkpoint's optimizer state was dropped
    friend bool operator==(const Kept&, const Kept&) = default;
};

// The rule for which of a job's checkpoints are kept. Checkpoints are ordered by step, and those of
// one step by writer; the newest is the last.
struct Retention {
    std::int64_t keep = 2;  // number of newest checkpoints to keep, at least 1
    // also keep the newest checkpoint at each multiple of this step; 0: off
    std::int64_t keep_every = 0;
    // number of newest checkpoints whose optimizer state is kept; 0: all
    std::int64_t optimizer = 0;
    // the checkpoint that the run resumed from; kept until a newer one is recorded
    std::optional<Name> resumed_from = std::nullopt;
    std::optional<std::int64_t> best_step = std::nullopt;  // step whose newest checkpoint is kept
};

// Returns the checkpoints of `recorded` that may be deleted. A damaged checkpoint does not count
// towards `keep`, and may be deleted once there is a usable checkpoint. Pure.
std::vector<Name> to_delete(std::vector<Kept> recorded, const Retention& rule);

// Returns the checkpoints of `recorded` whose optimizer state may be dropped. Pure.
std::vector<Name> to_strip(std::vector<Kept> recorded, const Retention& rule);

}  // namespace roll::checkpoint
