#include "worker/agent/nvml.hpp"

#include <array>
#include <cctype>
#include <cstdlib>

#include <dlfcn.h>

namespace roll::agent {
namespace {

using Device = void*;

// nvml.h's functions by their types there (12.x); 0 is NVML_SUCCESS.
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

    // Any number but 0 where the library lacks the function.
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

// The GPU of a MIG instance; any other is its own.
Device whole_gpu(const Nvml& nvml, Device device) {
    Device whole = nullptr;
    const int part = nvml.ask<int(Device, Device*)>("nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
                                                    device, &whole);
    return part == 0 ? whole : device;
}

std::int64_t used_memory(const Nvml& nvml, const std::string& name) {
    struct {
        unsigned long long total, free, used;
    } memory{};  // nvmlMemory_t
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

}  // namespace roll::agent
