// safetensors files: read by mapping, after every check of the format's audit; written in a stream,
// byte for byte as the reference writer (Rust) does.
//
// A file is 8 bytes of little-endian header length, a JSON header padded with spaces to 8 bytes,
// then the tensors, widest type first and by name within a type, back to back.
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

constexpr std::int64_t kSafetensorsHeaderMax = 100'000'000;  // bytes; also the reference's limit

struct SafetensorsEntry {
    TensorInfo info;
    std::int64_t begin = 0;  // bytes from the start of the file
    std::int64_t end = 0;
};

// What a header says. Entries are in the order of their bytes.
struct SafetensorsHeader {
    Metadata metadata;
    std::vector<SafetensorsEntry> entries;
    std::int64_t file_size = 0;  // bytes
};

// Reads the header off a file's bytes. Error Corrupt unless the tensors fill the file exactly: no
// gap, no overlap, no byte over, no name twice, sizes that fit the shapes.
Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file);

class SafetensorsFile {
  public:
    // Errors name the path.
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

// The header's bytes (length and padding included) and where each tensor goes. Error
// InvalidArgument: a name twice, or a header over the limit.
struct SafetensorsLayout {
    std::string prefix;
    SafetensorsHeader header;
};
Result<SafetensorsLayout> layout_safetensors(std::vector<TensorInfo> tensors,
                                             const Metadata& metadata);

// Writes a whole file (not atomically: callers stage), and fsyncs it.
Result<void> write_safetensors(const std::filesystem::path& path, std::vector<TensorView> tensors,
                               const Metadata& metadata);

}  // namespace roll::tensor
