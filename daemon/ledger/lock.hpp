// The lock of a ledger: a separate file, because only SQLite may open the database file.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"

namespace roll::ledger {

class Lock {
  public:
    // Takes DIRECTORY/ledger.lock for this object's lifetime. Fails with Refused if another rolld
    // has it.
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

// Returns true if another process holds the lock of this directory.
bool is_locked(const std::filesystem::path& directory);

// Returns a name of the directory, derived from its lock file. A copy of the directory has another
// name; a directory moved on its volume keeps its name. Empty without a lock file.
std::string identity(const std::filesystem::path& directory);

}  // namespace roll::ledger
