// An append-only file of measurements. Once append() has returned, its data survives a kill of the
// process. If the disk is full, however, the data stays in memory until there is space. Throws
// RankFailure.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "common/io/descriptor.hpp"

namespace roll::train {

class MetricsFile {
  public:
    // Creates the file with `content`, replacing an existing file.
    MetricsFile(const std::filesystem::path& path, std::string_view content);

    // Throws RankFailure (refused) if more than 64 MiB are unwritten, because the disk is full
    void append(std::string_view bytes);
    void sync();

  private:
    std::filesystem::path path_;
    io::Descriptor file_;
    std::string waiting_;  // data that is not written yet
};

}  // namespace roll::train
