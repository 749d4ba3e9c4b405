// Stages checkpoints: writes a checkpoint under a hidden name until it is complete and synced.
// roll-worker, not this code, later publishes the checkpoint with a rename. These functions block;
// call them from the thread that writes checkpoints.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/checkpoint/names.hpp"

namespace roll::checkpoint {

// Writes a checkpoint's files below `directory`, and creates the subdirectories for them.
using Fill = std::function<Result<void>(const std::filesystem::path& directory)>;

// Creates the directory CHECKPOINTS/.step-..., fills it, and syncs every file and directory. Then
// writes and syncs the manifest. Returns the staged directory. If `fill` fails or throws, removes
// the staged directory. Fails with Refused if the disk is full.
Result<std::filesystem::path> stage(const std::filesystem::path& checkpoints, const Name& name,
                                    const Fill& fill);

// Stage a checkpoint that several ranks write. begin_stage() creates an empty directory
// CHECKPOINTS/.step-... and returns it. Each rank then writes its part there (part.hpp). Call
// seal_parts() when all ranks are done. seal_parts() calls `fill` for the remaining files, joins
// the parts and writes the manifest. It does not read the files of the parts. If it fails, it
// removes the directory.
Result<std::filesystem::path> begin_stage(const std::filesystem::path& checkpoints,
                                          const Name& name);
Result<std::filesystem::path> seal_parts(const std::filesystem::path& checkpoints, const Name& name,
                                         int ranks, const Fill& fill);
// Removes a staged directory that will not be sealed.
void drop_stage(const std::filesystem::path& checkpoints, const Name& name);

// Deletes a published checkpoint. First renames it to a hidden name, so that a crash never leaves
// an incomplete checkpoint under a published name. If a call fails, the next call deletes the
// remaining files. Succeeds if the checkpoint does not exist.
Result<void> remove(const std::filesystem::path& checkpoints, const Name& name);

// Deletes the optimizer state of a published checkpoint. First replaces the manifest, so that the
// checkpoint is valid even after a crash. Succeeds if there is no optimizer state.
Result<void> drop_optimizer(const std::filesystem::path& checkpoints, const Name& name);

// Checks that checkpoints can be written to `checkpoints`: stages a small checkpoint, reads it back
// and removes it. Fails with the errors of stage().
Result<void> prove(const std::filesystem::path& checkpoints, const Token& writer);

struct Swept {
    int removed = 0;
    std::vector<std::string> left;  // one sentence per directory that could not be removed
};

// Removes what crashed writers left behind: checkpoints whose deletion was not finished, and staged
// checkpoints of writers whose token is older than `writer`.
Result<Swept> sweep(const std::filesystem::path& checkpoints, const Token& writer);

}  // namespace roll::checkpoint
