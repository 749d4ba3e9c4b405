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
};

// The first of `newest_first` whose every byte verifies. Reads files.
Choice choose_newest(std::span<const std::filesystem::path> newest_first);

// One recorded checkpoint of the job in retention's eyes.
struct Kept {
    Name name;
    bool usable = true;  // false: found damaged at start
    friend bool operator==(const Kept&, const Kept&) = default;
};

// Those of `recorded` that may be deleted when `keep` >= 1 shall remain: all but the `keep` newest
// usable ones, and never `resumed_from` until a newer usable one is recorded, nor the newest usable
// one of `best_step`, which stays besides them. Damaged ones count for nothing and go as soon as
// there is a usable one. Pure; newest is the highest step, then the latest writer.
std::vector<Name> to_delete(std::vector<Kept> recorded, std::int64_t keep,
                            const std::optional<Name>& resumed_from,
                            std::optional<std::int64_t> best_step = std::nullopt);

}  // namespace roll::checkpoint
