// Files that are either whole or absent, and mapped ones. Errors name the path and errno's text; a
// full disk is ErrorCode::Refused, a missing file NotFound.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "common/error.hpp"

namespace roll {

Result<std::string> read_file(const std::filesystem::path& path);

// As read_file(). InvalidArgument: it is not a regular file (opening a FIFO would wait for ever).
Result<std::string> read_regular_file(const std::filesystem::path& path);

// Writes path.tmp, fsyncs it, renames it over path and fsyncs the directory.
Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Of this user alone (0600). Writing: Refused if it is there already; it is synced, its directory
// is not. Reading: Refused, with the remedy, if others may.
Result<void> write_private_file(const std::filesystem::path& path, std::string_view content);
Result<std::string> read_private_file(const std::filesystem::path& path);

Result<void> make_directories(const std::filesystem::path& path);
Result<void> fsync_directory(const std::filesystem::path& path);

// Renames without replacing an existing target (renameat2 RENAME_NOREPLACE), then fsyncs the
// parent. Refused if the target exists.
Result<void> rename_new(const std::filesystem::path& from, const std::filesystem::path& to);

// A whole file, mapped read-only for this object's life. Moves, does not copy.
class MappedFile {
  public:
    // InvalidArgument: it is not a regular file.
    static Result<MappedFile> open(const std::filesystem::path& path);
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return bytes_; }

  private:
    explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
    std::span<const std::byte> bytes_;
};

// Handles SIGBUS, which the kernel sends to whoever reads a page of a mapped file that shrank, or
// whose disk fails: the page and those behind it become zeros, and the file is noted. Call it once,
// before any thread starts; from then on results count only while check_mapped_reads() succeeds.
void survive_failed_reads();

// Failed: a page of a MappedFile could not be read since survive_failed_reads(). Names the file.
Result<void> check_mapped_reads();

// As check_mapped_reads(). Failed as well: a MappedFile that is open now is shorter than it was,
// of which the kernel says nothing where the page itself remains.
Result<void> check_mapped_files();

}  // namespace roll
