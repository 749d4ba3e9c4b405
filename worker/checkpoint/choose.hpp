// Which checkpoint a run starts from, and which ones it may delete.
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
    std::optional<std::filesystem::path> directory;  // nothing: none verifies
    Manifest manifest;                               // of the directory
    std::vector<std::filesystem::path> skipped;      // those before it in the list, each with
    std::vector<std::string> reasons;                // one sentence why
    std::vector<std::filesystem::path> damaged;      // of the skipped, those that do not verify
};

// The step of the lowest validation loss, as the newest state that can be read has it: a run
// carries it on from attempt to attempt. Nothing: there was no validation.
std::optional<std::int64_t> best_step(std::span<const std::filesystem::path> newest_first);

// Those of that step before the others. Pure.
std::vector<std::filesystem::path> with_step_first(
    std::span<const std::filesystem::path> newest_first, std::int64_t step);

enum class For { Weights, Resume };  // what a checkpoint is wanted for

// The first of `newest_first` whose every byte verifies; to resume, one that still has its
// optimizer state. Reads files.
Choice choose_newest(std::span<const std::filesystem::path> newest_first, For use = For::Weights);

// One recorded checkpoint of the job in retention's eyes.
struct Kept {
    Name name;
    bool usable = true;     // false: found damaged at start
    bool optimizer = true;  // false: its optimizer state was dropped
    friend bool operator==(const Kept&, const Kept&) = default;
};

// Which checkpoints of a job stay. Newest is the highest step, then the latest writer.
struct Retention {
    std::int64_t keep = 2;        // the newest so many, at least 1
    std::int64_t keep_every = 0;  // besides, the newest of each step that this divides; 0: none
    std::int64_t optimizer = 0;   // of those that stay, the newest with optimizer state; 0: all
    std::optional<Name> resumed_from = std::nullopt;       // stays until a newer one is recorded
    std::optional<std::int64_t> best_step = std::nullopt;  // the newest of this step stays
};

// Those of `recorded` that may be deleted. Damaged ones count for nothing and go as soon as there
// is a usable one. Pure.
std::vector<Name> to_delete(std::vector<Kept> recorded, const Retention& rule);

// Those of `recorded` whose optimizer state may be dropped. Pure.
std::vector<Name> to_strip(std::vector<Kept> recorded, const Retention& rule);

}  // namespace roll::checkpoint
