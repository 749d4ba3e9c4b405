// The paths of the files in a state directory (docs/internals.md), for rolld, its workers and its
// clients.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"

namespace roll::io {

class StateDirectory {
  public:
    // `root` must be an absolute path. Does not access the file system.
    explicit StateDirectory(std::filesystem::path root) : root_(std::move(root)) {}

    // Returns the first of these directories that is set: `flag` (--dir), ROLL_DIR, and the
    // subdirectory roll of XDG_STATE_HOME. If none is set, returns ~/.local/state/roll.
    static Result<StateDirectory> find(const std::string& flag);

    const std::filesystem::path& root() const { return root_; }
    std::filesystem::path ledger() const { return root_ / "ledger.db"; }
    std::filesystem::path mark() const { return root_ / "ledger.mark"; }
    std::filesystem::path keys() const { return root_ / "keys"; }
    std::filesystem::path authorized() const { return keys() / "authorized"; }
    std::filesystem::path beacon() const { return root_ / "beacon"; }
    std::filesystem::path log(const std::string& program) const {
        return root_ / (program + ".log");
    }
    std::filesystem::path pid(const std::string& program) const {
        return root_ / (program + ".pid");
    }
    std::filesystem::path endpoint_file() const { return root_ / "endpoint"; }
    std::filesystem::path local_file() const { return root_ / "local"; }
    std::filesystem::path worker() const { return root_ / "worker"; }

    // Returns whether `rollctl keys add` made this directory. Such a directory has the public key
    // of another user's rolld, but no key pair of a rolld.
    bool is_key_holders() const;

    // Fails with Refused if is_key_holders() is true. A rolld started in this directory would
    // overwrite the public key of the other user's rolld. The directory's owner could then no
    // longer connect to that rolld.
    Result<void> check_own() const;

    // Creates the directory and its key directories with mode 0700.
    Result<void> make() const;

    // Returns rolld's default endpoint: ROOT/rolld.sock. If this path is too long for a Unix
    // socket, returns $XDG_RUNTIME_DIR/roll/HASH.sock, or /tmp/roll-UID/HASH.sock if this variable
    // is not set. Creates the directory roll or roll-UID.
    Result<std::string> default_endpoint() const;

    // Returns the path of the socket for clients on this machine (local_stream.hpp). This socket is
    // next to the socket of default_endpoint().
    Result<std::string> local_socket() const;

    // Returns the endpoint that rolld wrote to this directory at its start. Fails with Unavailable
    // and the hint `rollctl up` if rolld was never started in this directory.
    Result<std::string> read_endpoint() const;

  private:
    std::filesystem::path root_;
};

}  // namespace roll::io
