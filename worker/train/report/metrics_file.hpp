// An append-only file of metrics. After append() has returned, the data survives a kill of the
// process. If the disk is full, the data stays in memory until there is space. Errors throw
// RankFailure.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "common/io/descriptor.hpp"

namespace roll::train {

class MetricsFile {
  public:
    // Creates the file with `content`, or replaces an existing file.
    MetricsFile(const std::filesystem::path& path, std::string_view content);

    // Appends the bytes. Throws RankFailure (refused) if the disk is full and more than 64 MiB are
    // not written yet.
    void append(std::string_view bytes);
    void sync();

  private:
    std::filesystem::path path_;
    io::Descriptor file_;
    std::string waiting_;  // data that is not written yet
};

}  // namespace roll::train
