// The lock of a ledger: a file beside the database, for the database file itself is SQLite's alone.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"

namespace roll::ledger {

class Lock {
  public:
    // DIRECTORY/ledger.lock, held for this object's life. Refused: another rolld has it.
    static Result<Lock> take(const std::filesystem::path& directory);
    Lock(Lock&& other) noexcept;
    Lock& operator=(Lock&& other) noexcept;
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock();

  private:
    explicit Lock(int fd) : fd_(fd) {}
    int fd_;
};

// Whether another process holds the lock of this directory.
bool is_locked(const std::filesystem::path& directory);

// Names the directory by its lock file: a copy of the directory has another name, a directory that
// was moved on its volume keeps it. Empty without a lock file.
std::string identity(const std::filesystem::path& directory);

}  // namespace roll::ledger
