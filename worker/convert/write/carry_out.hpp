// Writes a plan's tensors with several threads.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/error.hpp"
#include "worker/convert/plan/diff.hpp"
#include "worker/convert/plan/plan.hpp"
#include "worker/convert/write/output.hpp"

namespace roll::convert {

// Returns the number of free bytes on the disk that holds the path or, if the path does not exist,
// its nearest existing parent. Returns -1 if the number is unknown.
std::int64_t disk_free(std::filesystem::path path);

// Checks that the disk of `target` has room for `bytes` bytes. Fails with Refused if the disk is
// too full.
Result<void> check_space(const std::filesystem::path& target, std::int64_t bytes);

int threads_of(const Run& run);
Share share_of(const Part& part);

// First compares the plan's replicas with each other, then writes the plan's tensors below
// `directory`. If several processes share the conversion, does only this process's part of both
// steps.
Result<void> carry_out(const Source& source, const Plan& plan,
                       const std::filesystem::path& directory, const Run& run, const Hooks& hooks);

}  // namespace roll::convert
