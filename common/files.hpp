// Reads, atomically writes and maps files. Errors contain the path and errno's text. A full disk is
// ErrorCode::Refused, a missing file ErrorCode::NotFound.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "common/error.hpp"

namespace roll {

Result<std::string> read_file(const std::filesystem::path& path);

// Like read_file(), but fails with InvalidArgument if the path does not name a regular file.
// Opening a FIFO, for example, could block for ever.
Result<std::string> read_regular_file(const std::filesystem::path& path);

// Writes a temporary file, fsyncs it, renames it to `path` and fsyncs the directory.
Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Write or read a private file (mode 0600). Writing fails with Refused if the file exists. Writing
// fsyncs the file, but not the directory. Reading fails with Refused if other users have access.
Result<void> write_private_file(const std::filesystem::path& path, std::string_view content);
Result<std::string> read_private_file(const std::filesystem::path& path);

// path_exists() returns whether anything exists at the path, is_file() whether the path names a
// regular file. Both return false if the path cannot be read.
bool path_exists(const std::filesystem::path& path);
bool is_file(const std::filesystem::path& path);

Result<void> make_directories(const std::filesystem::path& path);
Result<void> fsync_directory(const std::filesystem::path& path);

// Renames without replacing an existing target (renameat2 RENAME_NOREPLACE), then fsyncs the parent
// directory. Fails with Refused if the target exists.
Result<void> rename_new(const std::filesystem::path& from, const std::filesystem::path& to);

// A read-only mapping of a whole file. The destructor unmaps the file. Movable, not copyable.
class MappedFile {
  public:
    // Maps the file. Fails with InvalidArgument if the path does not name a regular file.
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

// Installs a SIGBUS handler. The kernel raises SIGBUS when a mapped page cannot be read because the
// file has shrunk or the disk fails. The handler replaces that page and all later pages of the
// mapping by zeros, and remembers the file. Call it once before any thread starts. Results computed
// from mapped files are valid only if check_mapped_reads() succeeds afterwards.
void survive_failed_reads();

// Fails if reading a MappedFile has failed since survive_failed_reads(); the message names the
// file.
Result<void> check_mapped_reads();

// Like check_mapped_reads(), but also fails if the file of an open MappedFile has shrunk. A file
// that was cut within its last page raises no signal, because the bytes after the new end read as
// zeros. Therefore this function compares the sizes.
Result<void> check_mapped_files();

}  // namespace roll
