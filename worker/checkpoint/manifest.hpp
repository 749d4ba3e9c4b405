// roll/manifest.json lists every file of a checkpoint with its size and XXH3-64. It is written
// last, so a directory with a manifest is complete. It is not a signature: it detects damage, not
// tampering.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "worker/checkpoint/names.hpp"

namespace roll::checkpoint {

inline constexpr const char* kFolder = "roll";
inline constexpr const char* kManifestFile = "roll/manifest.json";

struct FileEntry {
    std::string path;  // relative to the checkpoint's directory, with '/'
    std::uint64_t size_bytes = 0;
    std::uint64_t hash = 0;
    friend bool operator==(const FileEntry&, const FileEntry&) = default;
};

struct Manifest {
    Name name;
    std::vector<FileEntry> files;  // sorted by path, without the manifest itself
    friend bool operator==(const Manifest&, const Manifest&) = default;
};

std::string encode(const Manifest& manifest);
Result<Manifest> decode_manifest(std::string_view json);

// Lists and hashes every regular file below the directory except the manifest.
Result<std::vector<FileEntry>> hash_files(const std::filesystem::path& directory);

// Reads every byte. Fails with Corrupt and the first file that is missing, has another size or
// other bytes, or is not listed; with NotFound if there is no directory or manifest. Unlisted
// optimizer state is allowed: its writer died while dropping it.
Result<Manifest> verify(const std::filesystem::path& directory);

}  // namespace roll::checkpoint
