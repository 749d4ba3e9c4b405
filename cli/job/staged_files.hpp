// Sends the files that a job names (key `files`) to rolld before the job is submitted.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/client/daemon.hpp"
#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

// A piece is a part of a file. This type maps the SHA-256 of a piece to the bytes of the piece.
using PieceBytes = std::map<std::string, std::string>;

// Replaces each path in the key `files` of the document by the file's name, its size and the list
// of its pieces. Does the same for the later jobs of the document's chain. Adds the bytes of the
// pieces to `pieces`. Relative paths are relative to `base`. Does not change a malformed value of
// `files`, because the schema's check reports such a value. Fails with InvalidArgument if a file
// cannot be read or may not be sent.
Result<void> read_files(Json& document, const std::string& base, PieceBytes& pieces);

// Sends the pieces that rolld does not have. Fails with Refused if the files of one job in
// `documents` are too large in total.
Result<void> send_files(Daemon& daemon, const std::vector<Json>& documents,
                        const PieceBytes& pieces);

}  // namespace roll::cli
