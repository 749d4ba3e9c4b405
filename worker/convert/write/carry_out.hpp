// Writes a plan's tensors on several threads.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/error.hpp"
#include "worker/convert/plan/diff.hpp"
#include "worker/convert/plan/plan.hpp"
#include "worker/convert/write/output.hpp"

namespace roll::convert {

// Returns the free bytes of the disk that holds the path, or its nearest existing parent; -1 if
// unknown.
std::int64_t disk_free(std::filesystem::path path);

// Checks that the disk of `target` has room for `bytes`. Fails with Refused if the disk has less
// room.
Result<void> check_space(const std::filesystem::path& target, std::int64_t bytes);

int threads_of(const Run& run);
Share share_of(const Part& part);

// Compares the plan's replicas with each other, then writes the plan's tensors below `directory`.
// If several processes share the conversion, does only this process's part of these two steps.
Result<void> carry_out(const Source& source, const Plan& plan,
                       const std::filesystem::path& directory, const Run& run, const Hooks& hooks);

}  // namespace roll::convert
