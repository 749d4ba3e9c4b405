// Staging: a checkpoint comes into being as a directory under a hidden name and is whole and on
// disk before anybody may rename it. Publishing (the rename) is not done here; the worker does it.
// Blocking; call it from the thread that writes checkpoints.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/checkpoint/names.hpp"

namespace roll::checkpoint {

// Writes the checkpoint's files below the directory. Directories that it needs it makes itself.
using Fill = std::function<Result<void>(const std::filesystem::path& directory)>;

// Makes CHECKPOINTS/.step-..., fills it, syncs every file and directory, writes the manifest last
// and syncs that. Returns the staged directory. On an error, or an exception of `fill`, the staged
// directory is removed again; a full disk is ErrorCode::Refused.
Result<std::filesystem::path> stage(const std::filesystem::path& checkpoints, const Name& name,
                                    const Fill& fill);

// Deletes a checkpoint under its final name: renamed out of sight first, so that a crash half-way
// leaves nothing under a final name that does not verify. A missing one is no error; what an error
// left out of sight the next call deletes.
Result<void> remove(const std::filesystem::path& checkpoints, const Name& name);

// Deletes the optimizer state of a published checkpoint: first its manifest no longer lists it, so
// that a crash half-way leaves a checkpoint that verifies. One that has none is no error.
Result<void> drop_optimizer(const std::filesystem::path& checkpoints, const Name& name);

// Whether a checkpoint can come into being here: stages a small one, reads it back and removes it.
// The errors are those of stage.
Result<void> prove(const std::filesystem::path& checkpoints, const Token& writer);

struct Swept {
    int removed = 0;
    std::vector<std::string> left;  // one sentence each: what could not be
};

// Removes what crashed writers left behind: trashed directories, and staged ones of tokens before
// `writer`.
Result<Swept> sweep(const std::filesystem::path& checkpoints, const Token& writer);

}  // namespace roll::checkpoint
