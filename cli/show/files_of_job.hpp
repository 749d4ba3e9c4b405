// Reads the files in a job's output directory: logs and metrics.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "cli/show/stored_file.hpp"
#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

// Returns the number of processes that a command has on each node. `document` is the command's job
// file.
int tasks_per_node(const Json& document);

// Returns the ranks of the job that `text` selects: a list such as "0,2-3", or the word "all". A
// training job has one rank per GPU or slot. Any other job has one rank per node. If the ranks of a
// node share a log, returns only the first rank of each node. `job` is a reply to `show`.
Result<std::vector<int>> log_ranks(const Json& job, const std::string& text);

// Returns the path of one rank's log in the attempt `attempt`; nullopt means the newest attempt
// that has logs. Fails with NotFound if there is no such file.
Result<std::filesystem::path> log_file(const std::filesystem::path& output,
                                       std::optional<int> attempt, int rank);

// Returns whether the job ended without an attempt.
bool never_ran(const Json& job);
// Returns the error for a job that never ran. `what` names the missing file, such as "log".
tl::unexpected<Error> fail_never_ran(const Json& job, const char* what);

// Finds the files of jobs. `job` is a reply to `show`.
class JobFiles {
  public:
    // If `remote`, reads all files through rolld. Otherwise, reads through rolld only the files of
    // jobs whose output directory this machine cannot read.
    JobFiles(Daemon& daemon, bool remote) : rolld_(daemon), remote_(remote) {}

    // Returns one rank's log in the attempt `attempt`; nullopt means the newest attempt that has
    // logs. Fails with NotFound if there is no such log or the job never ran.
    Result<StoredFile> log(const Json& job, std::optional<int> attempt, int rank);
    StoredFile metrics(const Json& job);
    // Returns the first error of a read through rolld.
    Result<void> check() const { return rolld_.check(); }

  private:
    bool is_remote(const Json& job) const;

    FilesOfRolld rolld_;
    bool remote_;
};

// Follows a growing file. lines() returns the whole lines that were appended since the last call. A
// missing file counts as empty. roll-worker may remove the head of the file. Reading then continues
// after the text that was read last.
class Tail {
  public:
    // Starts at the offset `from`, which must be the beginning of a line.
    explicit Tail(StoredFile file, std::uint64_t from = 0)
        : file_(std::move(file)),
          offset_(from) {}
    explicit Tail(std::filesystem::path file, std::uint64_t from = 0)
        : Tail(StoredFile(std::move(file)), from) {}
    // Reads at most `bytes_max` new bytes.
    std::vector<std::string> lines(std::uint64_t bytes_max = UINT64_MAX);
    std::string rest();  // returns the unfinished last line and removes it from this object
    const std::filesystem::path& file() const { return file_.path(); }

  private:
    std::uint64_t find_again(std::uint64_t size) const;

    StoredFile file_;
    std::uint64_t offset_;
    // The last bytes that were read. They end at the offset offset_. If the head of the file was
    // removed, find_again() searches for these bytes, and reading continues after them.
    std::string seen_;
    std::string partial_;
};

// Returns the new rows of a metrics.jsonl. Skips lines that are not a JSON object.
std::vector<Json> metric_rows(Tail& tail);

}  // namespace roll::cli
