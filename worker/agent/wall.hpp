// The wall around the processes of an attempt: how roll-worker ends all of them although the
// attempt's guard was killed, whatever environment, session, parent or user they have by now.
//
//   cgroup      a cgroup v2 for each attempt, ended by cgroup.kill. Programs enter it before they
//               are executed. It lies in a cgroup of this roll-worker, which the next one ends too.
//   namespace   the guard is process 1 of a PID namespace: the kernel ends all of it with the guard
//   marks       ROLL_* in the environment, and the tree of processes. Weaker: if roll-worker and
//               guard are killed at once, a process without these variables stays
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/ids.hpp"
#include "common/io/descriptor.hpp"
#include "worker/agent/lease.hpp"

namespace roll::agent {

enum class WallKind { Marks, Namespace, Cgroup };
const char* name_of(WallKind kind);
// Marks for a name that is unknown: a later release may have built another wall.
WallKind wall_from(std::string_view name);

class Wall {
  public:
    // Marks.
    Wall() = default;

    // Tries each kind, the strongest first, and takes the first that this host allows. `only`
    // restricts the choice to the kind of that name; empty: any. `session` names the cgroup.
    // Refused if `only` names what this host does not allow, and says why.
    static Result<Wall> choose(std::string_view only, const std::string& session);

    WallKind kind() const { return kind_; }
    // The cgroup of this roll-worker's attempts; empty for other kinds.
    const std::filesystem::path& directory() const { return directory_; }
    // Why stronger kinds were not taken, a sentence each.
    const std::vector<std::string>& refused() const { return refused_; }

    // Makes the cgroup of an attempt and returns its directory; empty for other kinds.
    Result<std::filesystem::path> enclose(const AttemptKey& key) const;
    // Kills all that is in the attempt's cgroup. Returns once it is empty, or after some time.
    void end(const AttemptKey& key) const;
    // Removes the empty cgroup of an attempt.
    void open(const AttemptKey& key) const;

  private:
    WallKind kind_ = WallKind::Marks;
    std::filesystem::path directory_{};
    std::vector<std::string> refused_{};
};

// Opens the file by which a process enters a cgroup (io::Spawn). Unavailable if it cannot be
// written.
Result<io::Descriptor> open_cgroup(const std::filesystem::path& directory);

// Sends SIGKILL to all in a cgroup and the cgroups below it. False if the kernel cannot.
bool kill_cgroup(const std::filesystem::path& directory);

// Kills all in a cgroup and the cgroups below it. True once it is empty or gone; false if it is not
// after that time.
bool end_cgroup(const std::filesystem::path& directory, Millis timeout);

// Removes empty cgroups, those below included; leaves others.
void remove_cgroup(const std::filesystem::path& directory);

}  // namespace roll::agent
