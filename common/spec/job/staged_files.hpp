// The key `files` of a job file lists small inputs that rollctl sends to rolld at submission.
// rollctl replaces each path by an object with the pieces of the file. rolld stores each piece
// under the SHA-256 of the piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "common/spec/job/job.hpp"

namespace roll::spec {

constexpr std::size_t kPieceBytes = 256u << 10;  // maximum size of a piece
constexpr std::size_t kFilesMax = 1000;          // maximum number of files of a job

struct StagedFile {
    std::string name;  // relative path below $ROLL_FILES
    std::uint64_t bytes = 0;
    bool executable = false;
    std::vector<std::string> pieces{};  // SHA-256 of each piece, in the order of the file
    friend bool operator==(const StagedFile&, const StagedFile&) = default;
};

// Returns whether a text is a SHA-256 in lower-case hex digits, as in StagedFile::pieces.
bool is_sha256(std::string_view text);

// Returns why a file may not have this name; empty if the name is allowed.
std::string wrong_file_name(const std::string& name);

Json to_json(const StagedFile& file);

bool has_files(const JobSpec& spec);

// Returns the files in a job's document; empty if there are none. Requires that the document has
// passed check_files().
std::vector<StagedFile> staged_files(const Json& document);

}  // namespace roll::spec
