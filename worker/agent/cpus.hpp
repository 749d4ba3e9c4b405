// Assigns a node's CPUs to slots. Pure, except machine_cpus().
//
// A worker pins its programs only if the CPUs are its own, that is, its affinity holds exactly
// what Slurm granted. On a shared node without such limits two workers would pin to the same
// CPUs; there the grant only sets the number of threads.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace roll::agent {

struct Cpu {
    int id = 0;
    int core = 0;  // lowest id among the hardware threads of its core
    int numa = 0;
    friend bool operator==(const Cpu&, const Cpu&) = default;
};

// Parses "0-3,8,10-11" as in /sys and cgroups. Entries that are not numbers are skipped.
std::vector<int> parse_cpu_list(std::string_view text);

// Returns these CPUs with their cores and NUMA nodes from `sys` (/sys). Without that information
// each CPU is its own core on node 0.
std::vector<Cpu> machine_cpus(const std::vector<int>& ids, const std::filesystem::path& sys);

// Returns the number of CPUs that a cgroup's cpu.max ("max 100000", "250000 100000") allows, at
// least 1; 0 if there is no limit.
int cpus_of_quota(std::string_view cpu_max);

// The worker's part of the `usable` CPUs that its affinity and cgroup allow.
struct Grant {
    int count = 1;     // determines the number of threads
    bool own = false;  // no other process was granted any of them
    friend bool operator==(const Grant&, const Grant&) = default;
};
// Reads SLURM_CPUS_ON_NODE and SLURM_CPUS_PER_TASK of a Slurm step. Outside Slurm returns all
// usable CPUs, shared. With ROLL_CPU_BINDING=none they are never its own.
Grant granted_cpus(int usable, const std::vector<std::string>& environment);

// Returns the NUMA node of each GPU, taken from the first CPU near it. Empty if it is unknown for
// any GPU.
std::vector<int> numa_of_gpus(const std::vector<Cpu>& cpus,
                              const std::vector<std::vector<int>>& near_gpus);

// Divides `cpus` into equal shares, one per slot. A share keeps the threads of a core and CPUs of
// one NUMA node together and prefers CPUs near the slot's GPU. Slot s of S uses GPU s * G / S.
// `near_gpus` holds the CPUs near each of the G GPUs (empty if unknown). Returns empty if there
// are fewer CPUs than slots.
std::vector<std::vector<int>> share_cpus(std::vector<Cpu> cpus, int slots,
                                         const std::vector<std::vector<int>>& near_gpus);

}  // namespace roll::agent
