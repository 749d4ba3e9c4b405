// An append-only file of measurements. Appended data survives a kill of the process once append()
// has returned, except on a full disk: then it stays in memory until there is space. Throws
// RankFailure.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "common/io/descriptor.hpp"

namespace roll::train {

class MetricsFile {
  public:
    // Replaces the content of the file, if any, with `content`.
    MetricsFile(const std::filesystem::path& path, std::string_view content);

    void append(std::string_view bytes);  // fails (refused) if over 64 MiB are unwritten
    void sync();

  private:
    std::filesystem::path path_;
    io::Descriptor file_;
    std::string waiting_;  // not written yet
};

}  // namespace roll::train
