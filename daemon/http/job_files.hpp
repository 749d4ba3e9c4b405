// Reads the logs and metrics of jobs for the dashboard.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"
#include "daemon/files/job_file.hpp"

namespace roll::http {

constexpr int kPointsMax = 2000;  // maximum number of rows of metrics in a reply

// Returns roll.log/1 {from, next, size, text} with a piece of the file (files::read_piece).
Result<Json> read_log(const files::OpenFile& file, const Json& from);

// Returns roll.metric_rows/1 {rows}: the rows of the job's metrics.jsonl. If the file has more than
// `points` rows, returns rows at evenly spaced places in the file, and the newest rows. Skips lines
// that are not an object. A missing file has no rows.
Result<Json> read_metrics(const files::JobPlaces& places, int points);

// Carries out one of three operations. `state` is rolld's state directory.
//   log {output, stdout, workdir, attempt, rank, from?}: read_log(), and the field `attempt`
//   metrics {output, points?}: read_metrics()
//   metrics_part {output, from}: a part of metrics.jsonl
Result<Json> read_job_file(const std::string& op, const Json& args,
                           const std::filesystem::path& state);

}  // namespace roll::http
