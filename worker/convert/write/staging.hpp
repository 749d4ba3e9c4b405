// A directory that appears completely or not at all. It is filled under a hidden name beside its
// final place, synced, and then renamed. If a run is killed, the next run for the same target
// removes the remains of the killed run.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"

namespace roll::convert {

// Checks that publishing the target does not replace the source. Fails with InvalidArgument if the
// target is the source or contains it, or if one of the paths is empty.
Result<void> check_apart(const std::filesystem::path& source, const std::filesystem::path& target);

// Returns the path of the staging directory of `target`.
std::filesystem::path staging_of(const std::filesystem::path& target);

class Staging {
  public:
    // Creates `.NAME.roll-staging` beside `target` and locks it. Fails with Refused if another
    // process stages the same target, or if the target exists and may not be replaced. An empty
    // directory may always be replaced. With `overwrite`, a checkpoint or a NeMo archive may also
    // be replaced.
    static Result<Staging> begin(const std::filesystem::path& target, bool overwrite);

    Staging(Staging&& other) noexcept;
    Staging& operator=(Staging&&) = delete;
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    ~Staging();  // removes the staging directory unless it was published

    const std::filesystem::path& directory() const { return directory_; }

    // Syncs every directory, renames the staging directory to the target, and removes the previous
    // target. Requires that the files are synced.
    Result<void> publish();
    // Publishes one file of the staging directory as the target. Requires that the file is synced.
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
