// Uncompressed tar archives, such as `.nemo` files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace roll::formats {

struct TarMember {
    std::string name;  // path without a leading "./"
    std::int64_t begin = 0;
    std::int64_t size = 0;
};

// Returns the files of a tar archive (POSIX ustar, GNU long names, pax paths and sizes). Fails with
// Corrupt if the bytes are not a tar archive, or if a member extends past the end of `archive`.
// Fails with InvalidArgument if the tar archive is compressed.
Result<std::vector<TarMember>> parse_tar(std::span<const std::byte> archive);

// Moves a directory's files into a new tar archive named `archive` in the same directory, and syncs
// the archive. Removes each file as soon as it is in the archive, so that the disk never holds all
// files twice. Fails with Unavailable if `stopped` returns true.
Result<void> pack_tar(const std::filesystem::path& directory, const std::string& archive,
                      const std::function<bool()>& stopped);

}  // namespace roll::formats
