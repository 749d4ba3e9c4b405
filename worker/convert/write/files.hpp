// Writes single files of tensors.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "common/error.hpp"
#include "worker/convert/plan/plan.hpp"

namespace roll::convert {

// Writes one file of tensors. Tensors may be appended in any order and from any thread. The bytes
// of one tensor must be appended in order.
class TargetWriter {
  public:
    virtual ~TargetWriter() = default;
    virtual Result<void> append(std::size_t ordinal, std::span<const std::byte> bytes) = 0;
    virtual Result<void> finish() = 0;  // syncs the file; requires that every tensor is complete
};

// Create a file. `earlier` is a file of the same name in an earlier target, or empty. If the
// earlier file is identical, the new file is a link to it.
Result<std::unique_ptr<TargetWriter>> create_safetensors(const std::filesystem::path& path,
                                                         const TargetFile& file,
                                                         const std::filesystem::path& earlier);
Result<std::unique_ptr<TargetWriter>> create_torch(const std::filesystem::path& path,
                                                   const TargetFile& file,
                                                   const std::filesystem::path& earlier);

}  // namespace roll::convert
