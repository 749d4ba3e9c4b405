// Zip archives with stored (uncompressed) members, as torch.save writes them, including zip64.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/tensor/output_file.hpp"

namespace roll::formats {

struct ZipMember {
    std::string name;
    std::int64_t begin = 0;  // offset of its content in the archive
    std::int64_t size = 0;
    std::uint32_t crc = 0;
};

// Fails with Corrupt if it is not a zip, a member is compressed, encrypted or outside the archive,
// or a name occurs twice.
Result<std::vector<ZipMember>> parse_zip(std::span<const std::byte> archive);

// Continues a CRC-32, which starts at 0.
std::uint32_t crc32_of(std::uint32_t crc, std::span<const std::byte> bytes);

// Places the members of a new archive. Content starts at 64-byte boundaries, which torch needs for
// mapping. The caller sets `crc` while writing; write_headers() uses it at the end.
class ZipLayout {
  public:
    void add(std::string name, std::int64_t size);
    std::vector<ZipMember>& members() { return members_; }
    const std::vector<ZipMember>& members() const { return members_; }

    // Writes all local headers and the central directory; the caller writes the content. The
    // archive begins at byte `base` of the file.
    Result<void> write_headers(tensor::OutputFile& file, std::int64_t base = 0) const;

    // Size of the whole archive in bytes.
    std::int64_t size() const;

  private:
    std::string directory() const;
    std::vector<ZipMember> members_;
    std::vector<std::int64_t> headers_;  // offsets of the local headers
    std::int64_t end_ = 0;
};

}  // namespace roll::formats
