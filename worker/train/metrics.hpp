// metrics.jsonl: one JSON object a line. The first line says what the run is, with "schema"; the
// rest have a "step": a step's numbers, a validation's, or a sample. Fields: docs/training.md. If
// asked for, the same rows go to metrics.csv and to TensorBoard's event files.
//
// A resumed run cuts them to the step of its checkpoint and goes on. Throws RankFailure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "common/json.hpp"
#include "common/spec/train.hpp"
#include "worker/train/metrics_events.hpp"
#include "worker/train/metrics_file.hpp"

namespace roll::train {

struct MetricsOptions {
    std::filesystem::path output;   // the job's directory
    std::filesystem::path earlier;  // metrics.jsonl of the job that this one continues, or empty
    std::int64_t step = 0;          // what is kept
    OrderedJson head;               // for a file that has none
    spec::MetricsSpec also;
};

class Metrics {
  public:
    // Keeps what the file has up to `step`; without a file, what `earlier` has (which is only
    // read).
    explicit Metrics(const MetricsOptions& options);

    void append(const OrderedJson& row);
    void sync();

  private:
    std::optional<MetricsFile> lines_;
    std::optional<MetricsFile> csv_;
    std::optional<EventFile> events_;
};

// A row as one of the lines of metrics.csv, in the order of csv_head(); nothing for a row without
// any of its numbers. What a row does not have is an empty cell.
std::string csv_head();
std::string csv_line(const OrderedJson& row);

}  // namespace roll::train
