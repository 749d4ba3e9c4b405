// A directory that appears completely or not at all. It is filled beside its final place under a
// hidden name, synced, then renamed. The next run for the same target removes what a killed run
// left.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"

namespace roll::convert {

// Fails with InvalidArgument if the target is the source or contains it, because the target would
// then replace the source. Also fails if one of the names is empty.
Result<void> check_apart(const std::filesystem::path& source, const std::filesystem::path& target);

// Returns the staging directory of `target`.
std::filesystem::path staging_of(const std::filesystem::path& target);

class Staging {
  public:
    // Creates `.NAME.roll-staging` beside `target` and locks it. Fails with Refused if another
    // process stages the same target, or if the target exists and may not be replaced. An empty
    // directory may be replaced; with `overwrite`, also a checkpoint or a NeMo archive.
    static Result<Staging> begin(const std::filesystem::path& target, bool overwrite);

    Staging(Staging&& other) noexcept;
    Staging& operator=(Staging&&) = delete;
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    ~Staging();  // removes the directory unless published

    const std::filesystem::path& directory() const { return directory_; }

    // Syncs every directory, renames the staging directory to the target, and removes what was
    // replaced. The files must be synced already.
    Result<void> publish();
    // Publishes one synced file of the staging directory as the target.
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
