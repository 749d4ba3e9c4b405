// Stages checkpoints: writes a checkpoint under a hidden name until it is complete and synced. Then
// roll-worker, not this code, publishes it with a rename. Blocking; call from the thread that
// writes checkpoints.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/checkpoint/names.hpp"

namespace roll::checkpoint {

// Writes a checkpoint's files below `directory`, and creates the directories that they need.
using Fill = std::function<Result<void>(const std::filesystem::path& directory)>;

// Creates CHECKPOINTS/.step-..., fills it, syncs every file and directory, then writes and syncs
// the manifest. Returns the staged directory. If `fill` fails or throws, removes that directory.
// Fails with Refused if the disk is full.
Result<std::filesystem::path> stage(const std::filesystem::path& checkpoints, const Name& name,
                                    const Fill& fill);

// Stages a checkpoint that several ranks write. begin_stage() creates an empty
// CHECKPOINTS/.step-... and returns it; each rank then writes its part there (part.hpp). When all
// have, seal_parts() calls `fill` for the remaining files, joins the parts and writes the manifest.
// It does not read the parts' files. If it fails, it removes the directory.
Result<std::filesystem::path> begin_stage(const std::filesystem::path& checkpoints,
                                          const Name& name);
Result<std::filesystem::path> seal_parts(const std::filesystem::path& checkpoints, const Name& name,
                                         int ranks, const Fill& fill);
// Removes a staged directory that will not be sealed.
void drop_stage(const std::filesystem::path& checkpoints, const Name& name);

// Deletes a published checkpoint. Renames it to a hidden name first, so that a crash never leaves a
// published checkpoint that does not verify. Succeeds if the checkpoint is missing. After a
// failure, another call deletes what is left.
Result<void> remove(const std::filesystem::path& checkpoints, const Name& name);

// Deletes the optimizer state of a published checkpoint. Rewrites the manifest first, so that the
// checkpoint verifies after a crash. Succeeds if there is no optimizer state.
Result<void> drop_optimizer(const std::filesystem::path& checkpoints, const Name& name);

// Checks that a checkpoint can be written to `checkpoints`: stages a small one, reads it back and
// removes it. Fails with the errors of stage().
Result<void> prove(const std::filesystem::path& checkpoints, const Token& writer);

struct Swept {
    int removed = 0;
    std::vector<std::string> left;  // one sentence per directory that could not be removed
};

// Removes what crashed writers left: trashed directories, and staged directories of writers with an
// older token than `writer`.
Result<Swept> sweep(const std::filesystem::path& checkpoints, const Token& writer);

}  // namespace roll::checkpoint
