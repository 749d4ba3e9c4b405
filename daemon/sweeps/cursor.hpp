// Reads the values of a metric from a growing metrics.jsonl. A job may put anything at this path,
// so only regular files are read, and only parts of limited size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/spec/job/sweep.hpp"

namespace roll::sweeps {

class Cursor {
  public:
    // `rungs`: the steps for which values() returns a value, in ascending order.
    Cursor(std::filesystem::path file, std::string metric, std::vector<std::int64_t> rungs);

    // Reads the next lines, at most 4 MiB in total. Blocks while the volume hangs. Returns whether
    // the end of the file was reached; a missing file has no lines.
    bool read_on();

    // Returns the value of each rung: the last value up to the rung's step, or else the first value
    // after it. A rung has no value (nullopt) until the file has a value at exactly its step or a
    // later step.
    const spec::RungValues& values() const { return values_; }

  private:
    void take_line(std::string_view line);
    void take(std::int64_t step, std::optional<double> value);

    std::filesystem::path file_;
    std::string metric_;
    std::vector<std::int64_t> rungs_;
    spec::RungValues values_;
    std::size_t next_ = 0;            // index of the first rung that has not been passed
    std::optional<double> newest_{};  // last value before rung `next_`
    std::uint64_t offset_ = 0;
    std::string partial_{};
};

}  // namespace roll::sweeps
