// A file of measurements that only grows. What append() has returned from survives a killed
// process; but where the disk is full, it is kept in memory until there is room. Throws
// RankFailure.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "common/io/descriptor.hpp"

namespace roll::train {

class MetricsFile {
  public:
    // Makes it hold exactly `content`, whatever was there.
    MetricsFile(const std::filesystem::path& path, std::string_view content);

    void append(std::string_view bytes);  // fails (refused) once 64 MiB wait for room
    void sync();

  private:
    std::filesystem::path path_;
    io::Descriptor file_;
    std::string waiting_;  // not written yet
};

}  // namespace roll::train
