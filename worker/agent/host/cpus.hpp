// Assigns a node's CPUs to slots. All functions except machine_cpus() are pure.
//
// A worker pins its programs only if its CPUs were granted to no other process. It concludes this
// if its affinity has exactly as many CPUs as Slurm granted. On a shared node, Slurm may leave the
// affinity unlimited. Two workers could then pin their programs to the same CPUs. Such a worker
// therefore pins no program, and uses the grant only for the number of threads.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace roll::agent {

struct Cpu {
    int id = 0;
    int core = 0;  // lowest id among the hardware threads of this CPU's core
    int numa = 0;
    friend bool operator==(const Cpu&, const Cpu&) = default;
};

// Returns the numbers in a CPU list of /sys or a cgroup ("0-3,8,10-11"). Skips entries that are not
// numbers or ranges.
std::vector<int> parse_cpu_list(std::string_view text);

// Returns the CPUs `ids` with their cores and NUMA nodes, read from `sys` (/sys). Without that
// information each CPU is its own core on node 0.
std::vector<Cpu> machine_cpus(const std::vector<int>& ids, const std::filesystem::path& sys);

// Returns the number of CPUs that a cgroup's cpu.max ("max 100000", "250000 100000") allows,
// rounded up. Returns 0 if there is no limit.
int cpus_of_quota(std::string_view cpu_max);

// The CPUs that a worker may use: some or all of the CPUs that affinity and cgroup allow.
struct Grant {
    int count = 1;     // number of CPUs; determines the number of threads
    bool own = false;  // true if no other process was granted any of these CPUs
    friend bool operator==(const Grant&, const Grant&) = default;
};
// Returns the CPUs that SLURM_CPUS_ON_NODE and SLURM_CPUS_PER_TASK grant to a Slurm step. Outside
// Slurm, returns all usable CPUs; `own` is then true only if ROLL_CPU_BINDING is "slots". If
// ROLL_CPU_BINDING is "none", `own` is always false.
Grant granted_cpus(int usable, const std::vector<std::string>& environment);

// Returns the NUMA node of each GPU, that is, the node of the first CPU near the GPU. Returns an
// empty list if the node of any GPU is unknown.
std::vector<int> numa_of_gpus(const std::vector<Cpu>& cpus,
                              const std::vector<std::vector<int>>& near_gpus);

// Divides `cpus` into equal shares, one per slot. As far as possible, a share has all threads of
// its cores, and its CPUs are on one NUMA node, preferably near the slot's GPU. Slot s uses GPU s *
// G / S for S slots and G GPUs. `near_gpus` has the list of near CPUs for each GPU; empty if
// unknown. Returns an empty list if there are fewer CPUs than slots.
std::vector<std::vector<int>> share_cpus(std::vector<Cpu> cpus, int slots,
                                         const std::vector<std::vector<int>>& near_gpus);

}  // namespace roll::agent
