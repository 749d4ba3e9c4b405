// Reads safetensors files by mapping them. Makes all checks that the format's security audit
// demands before it returns tensors. Writes the same bytes as the reference implementation (Rust).
//
// A file is 8 bytes of little-endian header length, a JSON header padded with spaces to a multiple
// of 8 bytes, then the tensors without gaps: widest type first, sorted by name within a type.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/files.hpp"
#include "common/tensor/view.hpp"

namespace roll::tensor {

using Metadata = std::map<std::string, std::string>;

// maximum header size in bytes, as in the reference
constexpr std::int64_t kSafetensorsHeaderMax = 100'000'000;

struct SafetensorsEntry {
    TensorInfo info;
    std::int64_t begin = 0;  // offset from the start of the file in bytes
    std::int64_t end = 0;
};

// A parsed header. Entries are sorted by their offset in the file.
struct SafetensorsHeader {
    Metadata metadata;
    std::vector<SafetensorsEntry> entries;
    std::int64_t file_size = 0;  // size of the file in bytes
};

// Parses the header of a file. `file` has all bytes of the file. Fails with Corrupt if the tensors
// do not fill the file exactly: gaps, overlaps and extra bytes are not allowed. Also fails with
// Corrupt if two tensors have the same name, or if a tensor does not have the size of its shape.
Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file);

class SafetensorsFile {
  public:
    // Maps and checks a file. Error messages contain the path.
    static Result<SafetensorsFile> open(const std::filesystem::path& path);

    const Metadata& metadata() const { return header_.metadata; }
    const std::vector<TensorView>& tensors() const { return tensors_; }
    const TensorView* find(std::string_view name) const;

  private:
    SafetensorsFile(MappedFile file, SafetensorsHeader header);
    MappedFile file_;
    SafetensorsHeader header_;
    std::vector<TensorView> tensors_;
};

// The start of a new file. `prefix` is the header with its length and padding; `header` has the
// offset of each tensor.
//
// layout_safetensors() fails with InvalidArgument if two tensors have the same name, or if the
// header exceeds kSafetensorsHeaderMax.
struct SafetensorsLayout {
    std::string prefix;
    SafetensorsHeader header;
};
Result<SafetensorsLayout> layout_safetensors(std::vector<TensorInfo> tensors,
                                             const Metadata& metadata);

// Writes and fsyncs a whole file. Not atomic: callers write under a temporary name and then rename
// the file.
Result<void> write_safetensors(const std::filesystem::path& path, std::vector<TensorView> tensors,
                               const Metadata& metadata);

}  // namespace roll::tensor
