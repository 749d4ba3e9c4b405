// The cgroups of this process, and the memory that they and the machine leave to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace roll::agent {

// Returns this process's cgroup in each mounted hierarchy of cgroup v2; with `controller`, such as
// "memory", in each mounted hierarchy of cgroup v1 that has this controller. `proc` has the files
// cgroup and mountinfo of this process.
std::vector<std::filesystem::path> own_cgroups(std::string_view controller = "",
                                               const std::filesystem::path& proc = "/proc/self");

// Returns how many bytes of memory this process may use: the machine's, or fewer if a cgroup has a
// limit. 0 if it is unknown.
std::int64_t usable_memory();

}  // namespace roll::agent
