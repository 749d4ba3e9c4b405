// Where the files of one rolld lie (docs/internals.md: a state directory), for rolld, its workers
// and its clients.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"

namespace roll::io {

class StateDirectory {
  public:
    // An absolute path; nothing is looked at or made.
    explicit StateDirectory(std::filesystem::path root) : root_(std::move(root)) {}

    // `flag` (--dir) if not empty, else ROLL_DIR, else $XDG_STATE_HOME/roll, else
    // ~/.local/state/roll.
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

    // True in a directory that `rollctl keys add` made: it holds the public key of a rolld
    // elsewhere, and no key pair of a rolld of its own.
    bool is_key_holders() const;

    // Error Refused if is_key_holders(): a rolld that starts there would replace that public key,
    // and the holder could not connect any more.
    Result<void> check_own() const;

    // Makes the directory and those of the keys, for this user alone (0700).
    Result<void> make() const;

    // Where rolld listens unless told otherwise: ROOT/rolld.sock if a socket's name may be so long,
    // else $XDG_RUNTIME_DIR/roll/HASH.sock, else /tmp/roll-UID/HASH.sock. Makes the socket's
    // directory.
    Result<std::string> default_endpoint() const;

    // The socket for clients of this machine (local_stream.hpp), beside that of default_endpoint().
    Result<std::string> local_socket() const;

    // What the running rolld wrote. Error Unavailable, with the hint `rollctl up`, if none has
    // started here.
    Result<std::string> read_endpoint() const;

  private:
    std::filesystem::path root_;
};

}  // namespace roll::io
