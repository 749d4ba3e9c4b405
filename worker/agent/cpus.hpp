// Which of a node's CPUs the programs of each slot run on. Pure, but for machine_cpus().
//
// A worker pins its programs only where the CPUs are its own: Slurm gave it exactly those that its
// affinity leaves. On a node that others share without such bounds two workers would pin to the
// same ones; there only the number of threads follows from what Slurm granted.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace roll::agent {

struct Cpu {
    int id = 0;
    int core = 0;  // the lowest id among the hardware threads of its core
    int numa = 0;
    friend bool operator==(const Cpu&, const Cpu&) = default;
};

// "0-3,8,10-11" as /sys and cgroups write it; what is no number is left out.
std::vector<int> parse_cpu_list(std::string_view text);

// These CPUs with their cores and NUMA nodes, as `sys` (/sys) tells; where it does not: a core
// each, all on node 0.
std::vector<Cpu> machine_cpus(const std::vector<int>& ids, const std::filesystem::path& sys);

// How many CPUs a cgroup's cpu.max ("max 100000", "250000 100000") leaves, at least 1; 0: no limit.
int cpus_of_quota(std::string_view cpu_max);

// What the worker was given of the `usable` CPUs that its affinity and cgroup leave.
struct Grant {
    int count = 1;     // to count threads by
    bool own = false;  // nobody else was given any of them
    friend bool operator==(const Grant&, const Grant&) = default;
};
// By the environment of a Slurm step (SLURM_CPUS_ON_NODE, SLURM_CPUS_PER_TASK); elsewhere all that
// is usable, and not for it alone. ROLL_CPU_BINDING=none: never its own.
Grant granted_cpus(int usable, const std::vector<std::string>& environment);

// The NUMA node of each GPU: that of the first CPU near it. Empty where one has none that is known.
std::vector<int> numa_of_gpus(const std::vector<Cpu>& cpus,
                              const std::vector<std::vector<int>>& near_gpus);

// As large a share for each slot: neighbours of one NUMA node and the threads of a core together,
// first of the CPUs near its GPU. Slot s of S goes with GPU s * G / S; near_gpus holds the CPUs
// near each of the G, none where that is not known. Empty if there are fewer CPUs than slots.
std::vector<std::vector<int>> share_cpus(std::vector<Cpu> cpus, int slots,
                                         const std::vector<std::vector<int>>& near_gpus);

}  // namespace roll::agent
