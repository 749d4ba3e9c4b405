// TensorBoard event files, written without TensorBoard's libraries. A file consists of Event
// messages in TFRecord frames.
//
// The numbers of a row become scalars with the same names; a sample text becomes text. A resumed
// run starts a new file. The new file tells TensorBoard to discard the events of the other files
// from the run's first step on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "worker/train/report/metrics_file.hpp"

namespace roll::train {

class EventFile {
  public:
    // Creates a new file in `folder`. If the folder has no event file yet, first writes `kept`, the
    // rows up to `step`, to the new file.
    EventFile(const std::filesystem::path& folder, std::int64_t step,
              const std::vector<OrderedJson>& kept);

    void append(const OrderedJson& row);

  private:
    MetricsFile file_;
};

// Returns the CRC-32C (Castagnoli polynomial) of the bytes.
std::uint32_t crc32c(std::string_view bytes);

// Returns a TFRecord frame: length, masked CRC of the length, payload, masked CRC of the payload.
std::string tfrecord(std::string_view payload);

}  // namespace roll::train
