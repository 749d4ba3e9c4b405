// Uncompressed tar archives, of which a `.nemo` is one.
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
    std::string name;  // without "./" in front
    std::int64_t begin = 0;
    std::int64_t size = 0;
};

// The files of a tar (POSIX ustar, GNU long names, pax paths and sizes). Corrupt: not a tar, a
// member beyond its end. InvalidArgument: compressed.
Result<std::vector<TarMember>> parse_tar(std::span<const std::byte> archive);

// Moves a directory's files into a tar in it, whose name is `archive`: each file is gone as soon as
// it is in the tar, so that no disk holds all of them twice. Synced. Unavailable: `stopped` says
// so.
Result<void> pack_tar(const std::filesystem::path& directory, const std::string& archive,
                      const std::function<bool()>& stopped);

}  // namespace roll::formats
