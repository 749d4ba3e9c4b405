// metrics.jsonl: one JSON object per line. The first line describes the run and has the key
// "schema". Each later line has the key "step" and describes a training step, a validation or a
// sample text. docs/training.md lists the keys. If the job requests these formats, the rows are
// also written as metrics.csv and as TensorBoard event files.
//
// A resumed run truncates the files to the step of its checkpoint and appends to them. Errors throw
// RankFailure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/json.hpp"
#include "common/spec/train/train.hpp"
#include "worker/train/report/metrics_csv.hpp"
#include "worker/train/report/metrics_events.hpp"
#include "worker/train/report/metrics_file.hpp"

namespace roll::train {

struct MetricsOptions {
    std::filesystem::path output;  // output directory of the job
    // metrics.jsonl of the job that this job continues; empty if this job continues no job
    std::filesystem::path earlier;
    // number of the step after which the run continues; rows up to this step are kept
    std::int64_t step = 0;
    OrderedJson head;  // first line of a new file
    spec::MetricsSpec also;
    std::vector<std::string> valid_sets = {};
    // keys of pair_report.hpp that the job's rows have
    std::span<const char* const> objective_keys = {};
    std::vector<std::string> tasks = {};  // names of the tasks of train.evaluation
};

class Metrics {
  public:
    // Opens the files. Keeps the rows of metrics.jsonl up to `step`. If there is no
    // metrics.jsonl, starts it with the head and the rows of `earlier` up to `step`.
    explicit Metrics(const MetricsOptions& options);

    void append(const OrderedJson& row);
    void sync();

    // Returns the steps and losses of the rows that were kept at the start, without skipped steps.
    const std::vector<std::pair<std::int64_t, double>>& losses() const { return losses_; }

  private:
    std::optional<MetricsFile> lines_;
    std::optional<CsvTable> table_;
    std::optional<MetricsFile> csv_;
    std::optional<EventFile> events_;
    std::vector<std::pair<std::int64_t, double>> losses_;
};

}  // namespace roll::train
