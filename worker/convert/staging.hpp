// A directory that appears whole or not at all: filled beside its final place under a hidden name,
// synced, then renamed. What a killed run left behind is cleaned by the next one to the same place.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"

namespace roll::convert {

// InvalidArgument: the target is the source or holds it, and would replace what is being read; or
// one of them has no name.
Result<void> check_apart(const std::filesystem::path& source, const std::filesystem::path& target);

// Where the target is staged.
std::filesystem::path staging_of(const std::filesystem::path& target);

class Staging {
  public:
    // Makes `.NAME.roll-staging` beside `target` and locks it. Refused: the target exists and is
    // not an empty directory (unless `overwrite` and it is a checkpoint, or a NeMo archive, to
    // replace), or another process stages the same target.
    static Result<Staging> begin(const std::filesystem::path& target, bool overwrite);

    Staging(Staging&& other) noexcept;
    Staging& operator=(Staging&&) = delete;
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    ~Staging();  // removes what was not published

    const std::filesystem::path& directory() const { return directory_; }

    // Syncs every directory, renames to the target, and removes what was replaced. Files are synced
    // by their writers.
    Result<void> publish();
    // The same of one synced file of the directory, which becomes the target.
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
