// metrics.jsonl: one JSON object per line. The first line describes the run and has "schema". Each
// later line has "step" and holds a training step's numbers, a validation or a sample text.
// docs/training.md lists the fields. The job can ask for the same rows as metrics.csv and as
// TensorBoard event files.
//
// A resumed run truncates the files to the step of its checkpoint and appends. Throws RankFailure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/json.hpp"
#include "common/spec/train.hpp"
#include "worker/train/report/metrics_csv.hpp"
#include "worker/train/report/metrics_events.hpp"
#include "worker/train/report/metrics_file.hpp"

namespace roll::train {

struct MetricsOptions {
    std::filesystem::path output;  // output directory of the job
    // metrics.jsonl of the job from which this job continues, or empty
    std::filesystem::path earlier;
    std::int64_t step = 0;  // step from which the run continues; rows up to it are kept
    OrderedJson head;       // first line, written if there is no file yet
    spec::MetricsSpec also;
    std::vector<std::string> valid_sets = {};
};

class Metrics {
  public:
    // Opens the files. Keeps the rows up to `step` of the job's own metrics.jsonl. If there is
    // none, copies the rows up to `step` of `earlier`.
    explicit Metrics(const MetricsOptions& options);

    void append(const OrderedJson& row);
    void sync();

    // Returns steps and losses of the rows kept at the start, in order.
    const std::vector<std::pair<std::int64_t, double>>& losses() const { return losses_; }

  private:
    std::optional<MetricsFile> lines_;
    std::optional<CsvTable> table_;
    std::optional<MetricsFile> csv_;
    std::optional<EventFile> events_;
    std::vector<std::pair<std::int64_t, double>> losses_;
};

}  // namespace roll::train
