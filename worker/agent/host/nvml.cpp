#include "worker/agent/host/nvml.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include <dlfcn.h>

#include "common/counted.hpp"
#include "common/hash.hpp"

namespace roll::agent {
namespace {

using Device = void*;

// Calls functions of NVML 12.x by name. Each function returns 0 (NVML_SUCCESS) or an error.
class Nvml {
  public:
    Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
        ready_ = ask<int()>("nvmlInit_v2") == 0;
    }
    ~Nvml() {
        if (ready_) ask<int()>("nvmlShutdown");
        if (library_ != nullptr) ::dlclose(library_);
    }
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;
    bool ready() const { return ready_; }

    // Calls the function `name` and returns its result; returns non-zero if the library lacks the
    // function.
    template <class Function, class... Arguments>
    int ask(const char* name, Arguments... arguments) const {
        void* const symbol = library_ == nullptr ? nullptr : ::dlsym(library_, name);
        return symbol == nullptr ? -1 : reinterpret_cast<Function*>(symbol)(arguments...);
    }

  private:
    void* library_;
    bool ready_ = false;
};

Device find(const Nvml& nvml, const std::string& name) {
    Device device = nullptr;
    if (name.empty()) return nullptr;
    if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
        const auto index = static_cast<unsigned>(std::atoi(name.c_str()));
        const int found =
            nvml.ask<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", index, &device);
        return found == 0 ? device : nullptr;
    }
    const int found =
        nvml.ask<int(const char*, Device*)>("nvmlDeviceGetHandleByUUID", name.c_str(), &device);
    return found == 0 ? device : nullptr;
}

// Returns the GPU that contains the MIG instance `device`, or `device` itself if it is not a MIG
// instance.
Device whole_gpu(const Nvml& nvml, Device device) {
    Device whole = nullptr;
    const int part = nvml.ask<int(Device, Device*)>("nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
                                                    device, &whole);
    return part == 0 ? whole : device;
}

std::int64_t used_memory(const Nvml& nvml, const std::string& name) {
    struct {
        unsigned long long total, free, used;
    } memory{};  // layout of nvmlMemory_t
    Device const device = find(nvml, name);
    const bool told = device != nullptr &&
                      nvml.ask<int(Device, void*)>("nvmlDeviceGetMemoryInfo", device, &memory) == 0;
    return told ? static_cast<std::int64_t>(memory.used) : 0;
}

std::vector<int> cpus_near(const Nvml& nvml, const std::string& name) {
    constexpr int kWordBits = 64;
    std::array<unsigned long, 64> mask{};
    Device const device = find(nvml, name);
    if (device == nullptr || nvml.ask<int(Device, unsigned, unsigned long*)>(
                                 "nvmlDeviceGetCpuAffinity", whole_gpu(nvml, device),
                                 unsigned{mask.size()}, mask.data()) != 0)
        return {};
    std::vector<int> cpus;
    for (int cpu = 0; cpu < static_cast<int>(mask.size()) * kWordBits; ++cpu) {
        if ((mask[cpu / kWordBits] >> (cpu % kWordBits) & 1) != 0) cpus.push_back(cpu);
    }
    return cpus;
}

// Layout of nvmlProcessInfo_t. Some drivers of release 535 write entries that are 8 bytes longer.
// The buffer is large enough for such entries, but only the first of these longer entries is read
// correctly.
struct ProcessInfo {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

std::vector<GpuProcess> processes_on(const Nvml& nvml, Device device) {
    constexpr unsigned kMost = 16;
    constexpr unsigned long long kNotTold = ~0ULL;
    std::array<ProcessInfo, 2 * kMost> found{};
    unsigned count = kMost;
    if (device == nullptr ||
        nvml.ask<int(Device, unsigned*, ProcessInfo*)>("nvmlDeviceGetComputeRunningProcesses_v3",
                                                       device, &count, found.data()) != 0)
        return {};
    std::vector<GpuProcess> processes;
    for (unsigned i = 0; i < std::min(count, kMost); ++i)
        processes.push_back({found[i].pid, found[i].used == kNotTold
                                               ? 0
                                               : static_cast<std::int64_t>(found[i].used)});
    return processes;
}

}  // namespace

int count_gpus() {
    const Nvml nvml;
    unsigned gpus = 0;
    const bool counted =
        nvml.ready() && nvml.ask<int(unsigned*)>("nvmlDeviceGetCount_v2", &gpus) == 0;
    return counted ? static_cast<int>(gpus) : 0;
}

std::vector<std::vector<int>> cpus_near_gpus(const std::vector<std::string>& names) {
    const Nvml nvml;
    std::vector<std::vector<int>> near;
    for (const std::string& name : names)
        near.push_back(nvml.ready() ? cpus_near(nvml, name) : std::vector<int>{});
    return near;
}

std::vector<std::int64_t> used_gpu_memory(const std::vector<std::string>& names) {
    const Nvml nvml;
    std::vector<std::int64_t> used;
    for (const std::string& name : names)
        used.push_back(nvml.ready() ? used_memory(nvml, name) : 0);
    return used;
}

std::vector<GpuProcess> gpu_processes(const std::string& name) {
    const Nvml nvml;
    return nvml.ready() ? processes_on(nvml, find(nvml, name)) : std::vector<GpuProcess>{};
}

std::string nvlink_domain(const std::string& name) {
    constexpr unsigned char kCompleted = 3;  // NVML_GPU_FABRIC_STATE_COMPLETED
    struct {
        std::array<unsigned char, 16> cluster;
        int status;
        unsigned clique;
        unsigned char state;
    } fabric{};  // layout of nvmlGpuFabricInfo_t
    const Nvml nvml;
    Device const device = nvml.ready() ? find(nvml, name) : nullptr;
    const bool told =
        device != nullptr && nvml.ask<int(Device, void*)>("nvmlDeviceGetGpuFabricInfo",
                                                          whole_gpu(nvml, device), &fabric) == 0;
    // A node that is not part of an NVLink fabric has an all-zero cluster id.
    const bool alone = std::ranges::all_of(fabric.cluster, [](unsigned char c) { return c == 0; });
    if (!told || alone || fabric.state != kCompleted || fabric.status != 0) return "";
    std::uint64_t high = 0, low = 0;
    for (std::size_t i = 0; i < 8; ++i) {
        high = high << 8 | fabric.cluster[i];
        low = low << 8 | fabric.cluster[i + 8];
    }
    return "nvl-" + to_hex(high) + to_hex(low) + "-" + std::to_string(fabric.clique);
}

std::function<std::vector<int>()> gpu_meter(const std::vector<std::string>& names) {
    auto nvml = std::make_shared<const Nvml>();
    if (!nvml->ready() || names.empty()) return {};
    std::vector<Device> devices;
    for (const std::string& name : names) devices.push_back(find(*nvml, name));
    return [nvml, devices] {
        std::vector<int> use;
        for (Device const device : devices) {
            // layout of nvmlUtilization_t: use of the GPU and of its memory, in percent
            unsigned rates[2] = {};
            const bool told =
                device != nullptr && nvml->ask<int(Device, unsigned*)>(
                                         "nvmlDeviceGetUtilizationRates", device, rates) == 0;
            use.push_back(told ? static_cast<int>(rates[0]) : -1);
        }
        return use;
    };
}

std::string gpu_fault(const std::string& name) {
    constexpr int kUncorrected = 1,  // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
        kSinceLoaded = 0;            // NVML_VOLATILE_ECC
    const Nvml nvml;
    Device const part = nvml.ready() ? find(nvml, name) : nullptr;
    if (part == nullptr) return "";
    Device const device = whole_gpu(nvml, part);
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    const bool rows =
        nvml.ask<int(Device, unsigned*, unsigned*, unsigned*, unsigned*)>(
            "nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &pending, &failed) == 0;
    if (rows && failed != 0) return "failed to replace bad memory rows";
    if (rows && pending != 0) return "has bad memory rows that its next reset will replace";
    unsigned long long errors = 0;
    const bool is_known =
        nvml.ask<int(Device, int, int, unsigned long long*)>(
            "nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceLoaded, &errors) == 0;
    if (!is_known || errors == 0) return "";
    return "has had " + counted(errors, "uncorrected memory error") +
           " since its driver was loaded";
}

}  // namespace roll::agent
