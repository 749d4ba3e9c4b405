// A directory that appears completely or not at all: filled beside its final place under a hidden
// name, synced, then renamed. The next run for the same target removes what a killed run left.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"

namespace roll::convert {

// Fails with InvalidArgument if the target is or contains the source, which it would replace, or if
// one of the names is empty.
Result<void> check_apart(const std::filesystem::path& source, const std::filesystem::path& target);

// Returns the staging directory of `target`.
std::filesystem::path staging_of(const std::filesystem::path& target);

class Staging {
  public:
    // Creates `.NAME.roll-staging` beside `target` and locks it. Fails with Refused if the target
    // exists and is not an empty directory (unless `overwrite` is set and it is a checkpoint or a
    // NeMo archive), or if another process stages the same target.
    static Result<Staging> begin(const std::filesystem::path& target, bool overwrite);

    Staging(Staging&& other) noexcept;
    Staging& operator=(Staging&&) = delete;
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    ~Staging();  // removes the directory unless published

    const std::filesystem::path& directory() const { return directory_; }

    // Syncs every directory, renames to the target, and removes what was replaced. Writers sync
    // their files.
    Result<void> publish();
    // Publishes one synced file of the directory as the target.
    Result<void> publish_file(const std::string& name);

  private:
    Result<void> move_to_target(const std::filesystem::path& from, bool& replaced);
    Staging(std::filesystem::path target, std::filesystem::path directory, int lock)
        : target_(std::move(target)),
          directory_(std::move(directory)),
          lock_(lock) {}
    std::filesystem::path target_;
    std::filesystem::path directory_;
    int lock_ = -1;
};

}  // namespace roll::convert
