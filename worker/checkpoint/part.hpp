// A rank's part of a checkpoint: the files that the rank wrote, and the optimizer state in them.
// Each rank writes a report of its part to the staged directory. The process that writes the
// manifest joins the reports and deletes them.
#pragma once

#include <filesystem>
#include <vector>

#include "common/error.hpp"
#include "worker/checkpoint/manifest.hpp"
#include "worker/checkpoint/optimizer_index.hpp"

namespace roll::checkpoint {

struct Part {
    Name name;
    std::vector<FileEntry> files;
    // index of the optimizer state in this rank's file
    OptimizerIndex optimizer;
    friend bool operator==(const Part&, const Part&) = default;
};

// Writes and syncs the report of a rank below the staged directory.
Result<void> write_part(const std::filesystem::path& staged, int rank, const Part& part);

// Reads and deletes the reports of `ranks` ranks. Writes the index of the optimizer state. Returns
// the files of all parts. Fails with Corrupt if a report is missing or belongs to another
// checkpoint, or if a file's size differs from the reported size; the message names the rank.
Result<std::vector<FileEntry>> join_parts(const std::filesystem::path& staged, const Name& name,
                                          int ranks);

}  // namespace roll::checkpoint
