// The files in a job's output directory that commands follow: logs and metrics.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

// The ranks whose logs are meant by "0,2-3", or by "all": those that the job has, one a slot or GPU
// where it trains, else one a node. Where the ranks of a node share a log, the first of them.
// `job`: what `show` tells.
Result<std::vector<int>> log_ranks(const Json& job, const std::string& text);

// The log of one rank: the attempt given, or the newest one that has logs. Error NotFound names
// what there is instead.
Result<std::filesystem::path> log_file(const std::filesystem::path& output,
                                       std::optional<int> attempt, int rank);

// Reads what was appended to a file since the last call, whole lines only. A file that is not there
// yet reads as empty; one whose head was cut is read on from where it was.
class Tail {
  public:
    explicit Tail(std::filesystem::path file) : file_(std::move(file)) {}
    std::vector<std::string> lines();
    std::string rest();  // the unfinished last line, and the end of it
    const std::filesystem::path& file() const { return file_; }

  private:
    std::uint64_t find_again(std::ifstream& in, std::uint64_t size);

    std::filesystem::path file_;
    std::uint64_t offset_ = 0;
    std::string seen_;  // the bytes before it, by which it is found in a file whose head was cut
    std::string partial_;
};

// The new rows of a metrics.jsonl; a line that is no JSON object is left out.
std::vector<Json> metric_rows(Tail& tail);

}  // namespace roll::cli
