// Sends the files that a job names (key `files`) to rolld before the job is submitted.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/daemon.hpp"
#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

// The bytes of pieces, by their SHA-256.
using PieceBytes = std::map<std::string, std::string>;

// Replaces each path in the key `files` of the document, and of the later jobs of its chain, by the
// file's name, size and pieces. Adds the bytes of the pieces to `pieces`. Relative paths are
// relative to `base`. Does not change a `files` that the schema's check will reject. Fails with
// InvalidArgument if a file cannot be read or may not be sent.
Result<void> read_files(Json& document, const std::string& base, PieceBytes& pieces);

// Sends the pieces that rolld lacks. Fails with Refused if the files of any one job in `documents`
// are too large in total.
Result<void> send_files(Daemon& daemon, const std::vector<Json>& documents,
                        const PieceBytes& pieces);

}  // namespace roll::cli
