// Answers the operation `job_file`: reads a piece of a job's log or metrics.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/protocol/file_operations.hpp"

namespace roll::files {

constexpr std::uint64_t kReplyBytesMax = 128u << 10;  // maximum number of bytes in a reply

// A request for a file, and a copy of the job's data, because another thread reads the file.
struct JobFileRequest {
    protocol::JobFileArgs args;
    std::filesystem::path output;
    std::string document;        // the job file
    std::uint32_t attempts = 0;  // number of attempts so far
};

// Returns protocol::JobFileReply as JSON. Blocks while the volume hangs. `state` is rolld's state
// directory.
Result<Json> read_job_file(const JobFileRequest& request, const std::filesystem::path& state);

}  // namespace roll::files
