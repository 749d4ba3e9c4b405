// Reads a file in a job's output directory: directly if this machine has mounted the directory's
// file system, else in pieces through rolld.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/client/daemon.hpp"
#include "common/error.hpp"
#include "common/protocol/file_operations.hpp"
#include "common/time.hpp"

namespace roll::cli {

// Reads the files of jobs through rolld.
class FilesOfRolld {
  public:
    explicit FilesOfRolld(Daemon& daemon) : daemon_(daemon) {}
    FilesOfRolld(const FilesOfRolld&) = delete;
    FilesOfRolld& operator=(const FilesOfRolld&) = delete;

    // Requests a piece of a file. Fails with NotFound if there is no such file.
    Result<protocol::JobFileReply> ask(const protocol::JobFileArgs& args);
    // Returns the first error of ask(), except NotFound.
    Result<void> check() const;

  private:
    Daemon& daemon_;
    std::optional<Error> error_{};
};

// A file that may grow. A file that is missing or cannot be read counts as empty.
class StoredFile {
  public:
    explicit StoredFile(std::filesystem::path path) : path_(std::move(path)) {}
    // Reads through rolld, which must outlive this object. `args` names the file.
    StoredFile(FilesOfRolld& rolld, protocol::JobFileArgs args, std::filesystem::path path)
        : path_(std::move(path)),
          rolld_(&rolld),
          args_(std::move(args)) {}

    const std::filesystem::path& path() const { return path_; }
    std::uint64_t size() const;
    // Returns the time of the last change; nullopt if it is unknown.
    std::optional<Time> written() const;
    // Returns at most `count` bytes from the offset `at` on; fewer only at the end of the file.
    std::string read(std::uint64_t at, std::uint64_t count) const;

  private:
    // Requests the size and the time of the file, but no bytes.
    Result<protocol::JobFileReply> look() const;

    std::filesystem::path path_;
    FilesOfRolld* rolld_ = nullptr;  // nullptr: the file is on a volume of this machine
    protocol::JobFileArgs args_{};
};

}  // namespace roll::cli
