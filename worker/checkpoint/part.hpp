// A rank's part of a checkpoint: the files that it wrote, and the optimizer state in them. Each
// rank leaves a report in the staged directory. The writer of the manifest joins the reports and
// deletes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/checkpoint/manifest.hpp"
#include "worker/checkpoint/optimizer_index.hpp"

namespace roll::checkpoint {

struct Part {
    Name name;
    std::vector<FileEntry> files;
    OptimizerIndex optimizer;  // the parameters' boxes in this rank's file
    friend bool operator==(const Part&, const Part&) = default;
};

// Writes and syncs the report of a rank below the staged directory.
Result<void> write_part(const std::filesystem::path& staged, int rank, const Part& part);

// Reads the reports of `ranks` ranks and deletes them. Writes the index of the optimizer state if
// there is any. Returns the files of all parts. Fails with Corrupt if a report is missing or is of
// another checkpoint, or if a file does not have the size that its writer reported; the message has
// the rank's number.
Result<std::vector<FileEntry>> join_parts(const std::filesystem::path& staged, const Name& name,
                                          int ranks);

}  // namespace roll::checkpoint
