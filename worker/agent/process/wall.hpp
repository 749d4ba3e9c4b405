// The wall confines an attempt's processes, so that roll-worker can end all of them. This works
// even if the attempt's guard was killed, and whatever environment, session, parent or user the
// processes have changed to.
//
//   cgroup      a cgroup v2 for each attempt, ended by cgroup.kill. Programs enter the
//               cgroup before they are executed. The cgroup is inside a cgroup of this roll-worker;
//               the next roll-worker kills the processes that are left in that cgroup.
//   namespace   the guard is process 1 of a PID namespace. When the guard ends, the kernel ends all
//               processes of the namespace.
//   marks       roll-worker finds the processes by the variables ROLL_* in their environment and by
//               the tree of processes. This kind is weaker: if roll-worker and the guard are killed
//               at once, a process without these variables is not found.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/ids.hpp"
#include "common/io/descriptor.hpp"
#include "worker/agent/core/lease.hpp"

namespace roll::agent {

enum class WallKind { Marks, Namespace, Cgroup };
const char* name_of(WallKind kind);
// Returns the kind with this name. Returns Marks if the name is unknown, because a later release of
// Roll may have other kinds.
WallKind wall_from(std::string_view name);

class Wall {
  public:
    // Makes a wall of kind Marks, which confines nothing.
    Wall() = default;

    // Chooses the strongest kind that this host allows. `only` restricts the choice to the kind of
    // that name; empty allows every kind. `session` names the cgroup. Fails with Refused if this
    // host does not allow the kind `only`; the message says why.
    static Result<Wall> choose(std::string_view only, const std::string& session);

    WallKind kind() const { return kind_; }
    // Returns the cgroup that holds the cgroups of this roll-worker's attempts; empty if the kind
    // of this wall is not cgroup.
    const std::filesystem::path& directory() const { return directory_; }
    // Returns one sentence for each kind that is stronger than the chosen kind. The sentence says
    // why the stronger kind was not chosen.
    const std::vector<std::string>& refused() const { return refused_; }

    // Makes the cgroup of an attempt and returns its directory; returns an empty path if the kind
    // of this wall is not cgroup.
    Result<std::filesystem::path> enclose(const AttemptKey& key) const;
    // Kills all processes in the attempt's cgroup. Returns once the cgroup is empty, or after a
    // timeout.
    void end(const AttemptKey& key) const;
    // Undoes enclose(): removes the cgroup of an attempt. The cgroup must be empty.
    void open(const AttemptKey& key) const;

  private:
    WallKind kind_ = WallKind::Marks;
    std::filesystem::path directory_{};
    std::vector<std::string> refused_{};
};

// Returns the cgroup of an attempt below `directory`.
std::filesystem::path cgroup_of(const std::filesystem::path& directory, const AttemptKey& key);

// Opens the file through which a process enters the cgroup `directory` (io::Spawn). Fails with
// Unavailable if the file cannot be written.
Result<io::Descriptor> open_cgroup(const std::filesystem::path& directory);

// Sends SIGKILL to all processes in a cgroup and its child cgroups. Returns false if the kernel
// lacks cgroup.kill.
bool kill_cgroup(const std::filesystem::path& directory);

// Kills all processes in a cgroup and its child cgroups. Returns true once the cgroup is empty or
// gone, or false after `timeout`.
bool end_cgroup(const std::filesystem::path& directory, Millis timeout);

// Removes a cgroup and its child cgroups, except those with processes.
void remove_cgroup(const std::filesystem::path& directory);

}  // namespace roll::agent
