// Finds the cgroups of this process, and the memory that the machine and the cgroups allow it to
// use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace roll::agent {

// If `controller` is empty, returns this process's cgroup in each mounted hierarchy of cgroup v2.
// If `controller` has a name such as "memory", returns the cgroup in each mounted hierarchy of
// cgroup v1 that has this controller. `proc` is the directory with the files cgroup and mountinfo
// of this process.
std::vector<std::filesystem::path> own_cgroups(std::string_view controller = "",
                                               const std::filesystem::path& proc = "/proc/self");

// Returns how many bytes of memory this process may use. This is the machine's memory, or less if a
// cgroup has a limit. Returns 0 if it is unknown.
std::int64_t usable_memory();

}  // namespace roll::agent
