// A file of measurements that only grows. What append() has returned from survives a killed
// process. Throws RankFailure, of a full disk with status refused.
#pragma once

#include <filesystem>
#include <string_view>

#include "common/io/descriptor.hpp"

namespace roll::train {

class MetricsFile {
  public:
    // Makes it hold exactly `content`, whatever was there.
    MetricsFile(const std::filesystem::path& path, std::string_view content);

    void append(std::string_view bytes);
    void sync();

  private:
    std::filesystem::path path_;
    io::Descriptor file_;
};

}  // namespace roll::train
