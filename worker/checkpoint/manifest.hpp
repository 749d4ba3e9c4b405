// roll/manifest.json lists every file of a checkpoint with its size and XXH3-64 hash. The manifest
// is written last, so a directory with a manifest is complete. The manifest detects damage. It does
// not detect tampering, because it is not signed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "worker/checkpoint/names.hpp"

namespace roll::checkpoint {

inline constexpr const char* kFolder = "roll";
inline constexpr const char* kManifestFile = "roll/manifest.json";

struct FileEntry {
    std::string path;  // path relative to the checkpoint's directory; the separator is '/'
    std::uint64_t size_bytes = 0;
    std::uint64_t hash = 0;
    friend bool operator==(const FileEntry&, const FileEntry&) = default;
};

struct Manifest {
    Name name;
    std::vector<FileEntry> files;  // sorted by path; the manifest itself is not listed
    friend bool operator==(const Manifest&, const Manifest&) = default;
};

std::string encode(const Manifest& manifest);
Result<Manifest> decode_manifest(std::string_view json);

// Lists every regular file below the directory except the manifest. Uses the entries in `known` as
// they are, and hashes all other files.
Result<std::vector<FileEntry>> hash_files(const std::filesystem::path& directory,
                                          std::vector<FileEntry> known = {});

// Selects the part of a checkpoint's bytes that one of several readers checks.
struct Share {
    int reader = 0;
    int readers = 1;
};

// Reads and checks the bytes of this reader's share of the files, and returns the manifest. Fails
// with NotFound if the directory or the manifest does not exist. Fails with Corrupt if a file is
// missing, has a different size or different bytes, or is not listed; the message names the first
// such file. A file of optimizer state may be unlisted, because a process may have died while it
// deleted that file.
Result<Manifest> verify(const std::filesystem::path& directory, const Share& share = {});

// Like verify(), but checks only the files for which `wanted` returns true. Ignores unlisted files,
// because a user may have added them. Also ignores missing files of optimizer state, because they
// may have been deleted.
Result<void> verify_files(const std::filesystem::path& directory, const Share& share,
                          const std::function<bool(std::string_view path)>& wanted);

}  // namespace roll::checkpoint
