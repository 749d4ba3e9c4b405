// Reads the logs and metrics of jobs for the dashboard. A job may put anything at these paths, so
// only regular files are read, and only parts of limited size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::http {

constexpr std::size_t kLogBytesMax = 256u << 10;  // maximum size of one part of a log
constexpr int kPointsMax = 2000;                  // maximum number of rows of metrics in a reply

// Returns roll.log/1 {from, next, size, text}. The text has the bytes of `file` from offset `from`
// on, at most kLogBytesMax of them. Without `from`, returns the end of the file. Also returns the
// end of the file if the file is shorter than `from`, because its first part was cut off. Fails
// with NotFound if there is no such file.
Result<Json> read_log(const std::filesystem::path& file, const Json& from);

// Returns roll.metric_rows/1 {rows}: the rows of a metrics.jsonl. If the file has more than
// `points` rows, returns rows at evenly spaced places in the file, and the newest rows. Skips lines
// that are not an object. A missing file has no rows.
Result<Json> read_metrics(const std::filesystem::path& file, int points);

// Answers "log" {file, from?} with read_log() and "metrics" {file, points?} with read_metrics().
// Answers "metrics_part" {output, from} with read_log() of the directory's metrics.jsonl.
Result<Json> read_job_file(const std::string& op, const Json& args);

}  // namespace roll::http
