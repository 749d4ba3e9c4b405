// Maps the files of a checkpoint, each when it is first needed.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "common/error.hpp"
#include "common/files.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

class MappedFiles {
  public:
    // `source` owns the mappings, so that the views of its tensors stay valid.
    MappedFiles(Source& source, std::filesystem::path directory)
        : source_(source),
          directory_(std::move(directory)) {}

    const std::filesystem::path& directory() const { return directory_; }

    // Returns the bytes of a file. `file`: path relative to the directory.
    Result<std::span<const std::byte>> bytes_of(const std::string& file);

  private:
    Source& source_;
    std::filesystem::path directory_;
    std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace roll::convert
