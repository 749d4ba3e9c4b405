// The lock of a ledger. The lock is a separate file, because only SQLite may open the database
// file.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"

namespace roll::ledger {

class Lock {
  public:
    // Locks DIRECTORY/ledger.lock until this object is destroyed. Fails with Refused if another
    // rolld holds the lock.
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

// Returns whether another process holds the lock of this directory.
bool is_locked(const std::filesystem::path& directory);

// Returns an id of the directory, derived from its lock file. A copy of the directory has another
// id; a directory that is moved on its volume keeps its id. Empty if there is no lock file.
std::string identity(const std::filesystem::path& directory);

}  // namespace roll::ledger
