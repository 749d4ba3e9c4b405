// metrics.jsonl: one JSON object a line. The first line says what the run is, with "schema"; the
// rest have a "step": a step's numbers, a validation's, or a sample. Fields: docs/training.md.
//
// A resumed run cuts it to the step of its checkpoint and goes on. Throws RankFailure.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/io/descriptor.hpp"
#include "common/json.hpp"

namespace roll::train {

class Metrics {
  public:
    // Keeps what the file has up to `step`; without a file, what `earlier` has (another job's,
    // which is only read). A file without a head gets this one.
    Metrics(const std::filesystem::path& file, const std::filesystem::path& earlier,
            std::int64_t step, const OrderedJson& head);

    void append(const OrderedJson& row);
    void sync();

  private:
    std::filesystem::path path_;
    io::Descriptor file_;
};

}  // namespace roll::train
