// Chooses the checkpoint that a run starts from, and the checkpoints that may be deleted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/checkpoint/manifest.hpp"

namespace roll::checkpoint {

struct Choice {
    std::optional<std::filesystem::path> directory;  // nullopt if none verifies
    Manifest manifest;                               // manifest of `directory`
    std::vector<std::filesystem::path> skipped;      // newer ones that were not chosen,
    std::vector<std::string> reasons;                // each with one sentence why
    std::vector<std::filesystem::path> damaged;      // skipped ones that do not verify
};

// Returns the step with the lowest validation loss, from the newest readable state; attempts pass
// it on. Returns nullopt if there was no validation.
std::optional<std::int64_t> best_step(std::span<const std::filesystem::path> newest_first);

// Moves the checkpoints of `step` to the front. Pure.
std::vector<std::filesystem::path> with_step_first(
    std::span<const std::filesystem::path> newest_first, std::int64_t step);

enum class For { Weights, Resume };  // purpose of a checkpoint

// Returns the first of `newest_first` whose bytes all verify; for Resume it must have optimizer
// state. Reads files.
Choice choose_newest(std::span<const std::filesystem::path> newest_first, For use = For::Weights);

// A recorded checkpoint of the job, as retention sees it.
struct Kept {
    Name name;
    bool usable = true;     // false: was damaged at start
    bool optimizer = true;  // false: its optimizer state was dropped
    friend bool operator==(const Kept&, const Kept&) = default;
};

// The rule for keeping a job's checkpoints. The newest has the highest step, then the latest
// writer.
struct Retention {
    std::int64_t keep = 2;        // keep this many of the newest, at least 1
    std::int64_t keep_every = 0;  // also keep the newest of each multiple of this step; 0: none
    std::int64_t optimizer = 0;   // keep optimizer state in this many of the newest; 0: in all
    std::optional<Name> resumed_from = std::nullopt;       // kept until a newer one is recorded
    std::optional<std::int64_t> best_step = std::nullopt;  // the newest of this step is kept
};

// Returns the checkpoints of `recorded` that may be deleted. Damaged ones are not counted and may
// be deleted once there is a usable one. Pure.
std::vector<Name> to_delete(std::vector<Kept> recorded, const Retention& rule);

// Returns the checkpoints of `recorded` whose optimizer state may be dropped. Pure.
std::vector<Name> to_strip(std::vector<Kept> recorded, const Retention& rule);

}  // namespace roll::checkpoint
