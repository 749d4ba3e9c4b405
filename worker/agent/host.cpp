#include "worker/agent/host.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <dlfcn.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/check.hpp"
#include "common/hash.hpp"

namespace roll::agent {

std::string host_name() {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
    return name.data();
}

int cores() {
    cpu_set_t set;
    if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(CPU_COUNT(&set), 1);
    return static_cast<int>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
}

int count_gpus() {
    void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return 0;
    using Plain = int (*)();
    using Count = int (*)(unsigned*);
    const auto init = reinterpret_cast<Plain>(::dlsym(library, "nvmlInit_v2"));
    const auto count = reinterpret_cast<Count>(::dlsym(library, "nvmlDeviceGetCount_v2"));
    const auto shutdown = reinterpret_cast<Plain>(::dlsym(library, "nvmlShutdown"));
    unsigned gpus = 0;
    if (init != nullptr && count != nullptr && init() == 0) {
        if (count(&gpus) != 0) gpus = 0;
        if (shutdown != nullptr) shutdown();
    }
    ::dlclose(library);
    return static_cast<int>(gpus);
}

std::string draw_session() {
    std::array<std::uint64_t, 2> bits{};
    ROLL_CHECK(::getrandom(bits.data(), sizeof bits, 0) == sizeof bits);
    return to_hex(bits[0]) + to_hex(bits[1]);
}

}  // namespace roll::agent
