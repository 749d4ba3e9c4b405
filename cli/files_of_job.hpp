// The files in a job's output directory that commands follow: logs and metrics.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace roll::cli {

// The log of one rank: the attempt given, or the newest one that has logs. Error NotFound names
// what there is instead.
Result<std::filesystem::path> log_file(const std::filesystem::path& output,
                                       std::optional<int> attempt, int rank);

// Reads what was appended to a file since the last call, whole lines only. A file that is not there
// yet reads as empty; one that became shorter (a resumed run cut it) is read on from its new end.
class Tail {
  public:
    explicit Tail(std::filesystem::path file) : file_(std::move(file)) {}
    std::vector<std::string> lines();
    std::string rest();  // the unfinished last line, and the end of it
    const std::filesystem::path& file() const { return file_; }

  private:
    std::filesystem::path file_;
    std::uint64_t offset_ = 0;
    std::string partial_;
};

}  // namespace roll::cli
