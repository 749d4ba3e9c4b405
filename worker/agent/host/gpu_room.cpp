#include "worker/agent/host/gpu_room.hpp"

#include <unistd.h>

#include "common/files.hpp"

namespace roll::agent {
namespace {

std::string mib(std::int64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

// Returns a process's name. Returns "" if the process has ended. Also returns "" if this process is
// in another PID namespace, because the driver's process ids then do not match /proc.
std::string program_of(std::int64_t pid) {
    if (::getpid() == 1) return {};
    std::string name = read_file("/proc/" + std::to_string(pid) + "/comm").value_or("");
    return name.substr(0, name.find('\n'));
}

std::string text_of(const GpuProcess& process) {
    const std::string name = program_of(process.pid);
    return "process " + std::to_string(process.pid) + (name.empty() ? "" : " (" + name + ")") +
           (process.bytes > 0 ? " " + mib(process.bytes) : "");
}

}  // namespace

std::vector<HeldGpu> held_gpus(const std::vector<GpuRoom>& gpus) {
    std::vector<std::string> names;
    for (const GpuRoom& gpu : gpus) names.push_back(gpu.name);
    const std::vector<std::int64_t> used = used_gpu_memory(names);
    std::vector<HeldGpu> held;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        if (used[i] > gpus[i].most_used_bytes)
            held.push_back({gpus[i], used[i], gpu_processes(gpus[i].name)});
    }
    return held;
}

std::string text_of(const std::vector<HeldGpu>& held) {
    std::string text;
    for (const HeldGpu& gpu : held) {
        text += (text.empty() ? "GPU " : "; GPU ") + gpu.room.name + " has " + mib(gpu.used_bytes) +
                " in use (" + mib(gpu.room.most_used_bytes) + " at most)";
        for (std::size_t i = 0; i < gpu.processes.size(); ++i)
            text += (i == 0 ? ": " : ", ") + text_of(gpu.processes[i]);
    }
    return text;
}

}  // namespace roll::agent
