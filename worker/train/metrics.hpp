// metrics.jsonl: one JSON object a line. The first line says what the run is, with "schema"; the
// rest have a "step": a step's numbers, a validation's, or a sample. Fields: docs/training.md. If
// asked for, the same rows go to metrics.csv and to TensorBoard's event files.
//
// A resumed run cuts them to the step of its checkpoint and goes on. Throws RankFailure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/json.hpp"
#include "common/spec/train.hpp"
#include "worker/train/metrics_csv.hpp"
#include "worker/train/metrics_events.hpp"
#include "worker/train/metrics_file.hpp"

namespace roll::train {

struct MetricsOptions {
    std::filesystem::path output;   // the job's directory
    std::filesystem::path earlier;  // metrics.jsonl of the job that this one continues, or empty
    std::int64_t step = 0;          // what is kept
    OrderedJson head;               // for a file that has none
    spec::MetricsSpec also;
    std::vector<std::string> valid_sets = {};  // their names
};

class Metrics {
  public:
    // Keeps what the file has up to `step`; without a file, what `earlier` has (which is only
    // read).
    explicit Metrics(const MetricsOptions& options);

    void append(const OrderedJson& row);
    void sync();

    // Steps and losses of the rows that were kept at the start, in their order.
    const std::vector<std::pair<std::int64_t, double>>& losses() const { return losses_; }

  private:
    std::optional<MetricsFile> lines_;
    std::optional<CsvTable> table_;
    std::optional<MetricsFile> csv_;
    std::optional<EventFile> events_;
    std::vector<std::pair<std::int64_t, double>> losses_;
};

}  // namespace roll::train
