// Reads the metric of a sweep's trials from their growing metrics.jsonl files. Each call reads only
// the parts that earlier calls have not read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "common/json.hpp"
#include "common/trials.hpp"

namespace roll::http {

// Returns the metrics.jsonl of the directory `output` from byte `from` on, as roll.log/1 {from,
// size, text, inode, written}. Fails if the file cannot be read.
using ReadPart = std::function<Result<Json>(const std::string& output, std::uint64_t from)>;

// The class is thread-safe.
class TrialFiles {
  public:
    static constexpr std::size_t kFilesMax = 4096;

    // Returns the values of `metric` in the metrics.jsonl of an output directory. Reads at most a
    // limited part of the file; the next call continues.
    TrialMetric read(const std::string& output, const std::string& metric, bool maximize,
                     const ReadPart& read_part);

  private:
    struct Position {
        TrialMetric seen{};
        std::uint64_t next = 0;  // first byte that was not read
        // the file that was read, its size and the time of its last change
        std::uint64_t inode = 0, size = 0;
        std::int64_t written = 0;
    };
    static bool continues(const Json& part, const Position& position);
    static void note(const Json& part, Position& position);

    std::mutex mutex_;
    std::map<std::tuple<std::string, std::string, bool>, Position> files_;
};

}  // namespace roll::http
