// TensorBoard's event files, written without its libraries: TFRecord frames around Event messages.
//
// A row's numbers become scalars under their names, a sample becomes text. A resumed run starts a
// new file whose mark tells TensorBoard to forget what the others hold from its first step on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "worker/train/metrics_file.hpp"

namespace roll::train {

class EventFile {
  public:
    // A new file in `folder`. `kept` are the rows of the steps up to `step`; they are written only
    // if the folder has no event file that holds them.
    EventFile(const std::filesystem::path& folder, std::int64_t step,
              const std::vector<OrderedJson>& kept);

    void append(const OrderedJson& row);

  private:
    MetricsFile file_;
};

// Castagnoli's CRC, as iSCSI has it.
std::uint32_t crc32c(std::string_view bytes);

// Length, its masked CRC, the payload, its masked CRC.
std::string tfrecord(std::string_view payload);

}  // namespace roll::train
