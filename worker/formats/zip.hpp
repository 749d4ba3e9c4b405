// Zip archives with stored (uncompressed) members, as torch.save writes them, including zip64.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/tensor/output_file.hpp"

namespace roll::formats {

struct ZipMember {
    std::string name;
    std::int64_t begin = 0;  // offset of the member's content in the archive
    std::int64_t size = 0;
    std::uint32_t crc = 0;
};

// Returns the members of an archive. Fails with Corrupt if the bytes are not a zip, if a member is
// compressed, encrypted or outside the archive, or if a name occurs twice.
Result<std::vector<ZipMember>> parse_zip(std::span<const std::byte> archive);

// Returns the CRC-32 of some data followed by `bytes`. `crc` is the CRC-32 of the data before
// `bytes`; 0 if there is no such data.
std::uint32_t crc32_of(std::uint32_t crc, std::span<const std::byte> bytes);

// Assigns the places of the members of a new archive. The content of a member starts at a 64-byte
// boundary, because torch needs this for mapping. The caller sets each member's `crc` while it
// writes the content, and finally calls write_headers().
class ZipLayout {
  public:
    void add(std::string name, std::int64_t size);
    std::vector<ZipMember>& members() { return members_; }
    const std::vector<ZipMember>& members() const { return members_; }

    // Writes all local headers and the central directory to `file`. The caller writes the contents
    // of the members.
    Result<void> write_headers(tensor::OutputFile& file) const;

    // Returns the local header of a member. The header lies between the previous member's content
    // and this member's content. Requires that the member's `crc` is set.
    std::string header(std::size_t member) const;
    // Returns the central directory, which follows the last member's content. Requires that the
    // `crc` of every member is set.
    std::string directory() const;

    // Returns the size of the whole archive in bytes.
    std::int64_t size() const;

  private:
    std::vector<ZipMember> members_;
    std::vector<std::int64_t> headers_;  // offset of each member's local header
    std::int64_t end_ = 0;
};

}  // namespace roll::formats
