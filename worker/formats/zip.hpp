// Zip archives whose members are stored, not compressed: what torch.save writes. zip64 included.
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
    std::int64_t begin = 0;  // of its content, bytes from the start of the archive
    std::int64_t size = 0;
    std::uint32_t crc = 0;
};

// Corrupt: not a zip, a compressed or encrypted member, a name twice, a member outside the archive.
Result<std::vector<ZipMember>> parse_zip(std::span<const std::byte> archive);

// Continues a CRC-32 (0 at the start).
std::uint32_t crc32_of(std::uint32_t crc, std::span<const std::byte> bytes);

// Where each member of a new archive goes. Content starts on 64-byte boundaries, as torch wants it
// for mapping. `crc` is filled in while writing; the headers are made from the members at the end.
class ZipLayout {
  public:
    void add(std::string name, std::int64_t size);
    std::vector<ZipMember>& members() { return members_; }
    const std::vector<ZipMember>& members() const { return members_; }

    // Writes every local header and the central directory; members' content is the caller's. The
    // archive begins at byte `base` of the file.
    Result<void> write_headers(tensor::OutputFile& file, std::int64_t base = 0) const;

    // Of the whole archive, in bytes.
    std::int64_t size() const;

  private:
    std::string directory() const;
    std::vector<ZipMember> members_;
    std::vector<std::int64_t> headers_;  // where each local header begins
    std::int64_t end_ = 0;
};

}  // namespace roll::formats
