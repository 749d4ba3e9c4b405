// A libnvidia-ml.so.1 with two GPUs: "GPU-0" near CPUs 0-1 and "GPU-1" near CPUs 64-65. "MIG-1" is
// an instance of the second GPU. While the file FAKE_NVML_HELD exists, process 4711 holds 3 GiB of
// the first GPU. The second GPU has had an uncorrected memory error.
#include <cstdlib>
#include <cstring>

#include <unistd.h>

namespace {
constexpr int kDone = 0;
constexpr unsigned long long kHeld = 3ULL << 30;

bool is_held() {
    const char* const file = std::getenv("FAKE_NVML_HELD");
    return file != nullptr && ::access(file, F_OK) == 0;
}

constexpr int kNotFound = 6;
int g_devices[3];  // handles point here: two GPUs and the MIG instance
bool g_ready = false;
}  // namespace

extern "C" {

int nvmlInit_v2() {
    g_ready = true;
    return kDone;
}
int nvmlShutdown() { return kDone; }
int nvmlDeviceGetCount_v2(unsigned* count) {
    *count = g_ready ? 2 : 0;
    return kDone;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    if (index > 1) return kNotFound;
    *device = &g_devices[index];
    return kDone;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
    const char* const known[] = {"GPU-0", "GPU-1", "MIG-1"};
    for (int i = 0; i < 3; ++i) {
        if (std::strcmp(uuid, known[i]) != 0) continue;
        *device = &g_devices[i];
        return kDone;
    }
    return kNotFound;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* device, void** whole) {
    if (device != &g_devices[2]) return kNotFound;
    *whole = &g_devices[1];
    return kDone;
}
// Fills an nvmlMemory_t: total, free, used.
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
    memory[0] = 80;
    memory[1] = 70;
    memory[2] = device == &g_devices[2] ? 3 : 10;
    if (device == &g_devices[0] && is_held()) memory[2] = kHeld;
    return kDone;
}
// Fills an nvmlUtilization_t: gpu, memory. Fails for the MIG instance, as NVML does.
int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) {
    if (device == &g_devices[2]) return kNotFound;
    rates[0] = device == &g_devices[0] ? 37 : 90;
    rates[1] = 5;
    return kDone;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, void* processes) {
    struct {
        unsigned pid;
        unsigned long long used;
        unsigned gpu_instance, compute_instance;
    } const one{4711, kHeld, 0, 0};
    *count = device == &g_devices[0] && is_held() ? 1 : 0;
    if (*count == 1) std::memcpy(processes, &one, sizeof one);
    return kDone;
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* errors) {
    *errors = device == &g_devices[1] && type == 1 && counter == 0 ? 2 : 0;
    return kDone;
}
// Only the second GPU's NVLink reaches other nodes.
int nvmlDeviceGetGpuFabricInfo(void* device, void* fabric) {
    struct {
        unsigned char cluster[16];
        int status;
        unsigned clique;
        unsigned char state;
    } told{{}, 0, 3, 3};
    if (device == &g_devices[1])
        for (unsigned char i = 0; i < 16; ++i) told.cluster[i] = i;
    std::memcpy(fabric, &told, sizeof told);
    return kDone;
}
int nvmlDeviceGetRemappedRows(void* device, unsigned*, unsigned*, unsigned* pending,
                              unsigned* failed) {
    if (device == &g_devices[2]) return kNotFound;
    *pending = *failed = 0;
    return kDone;
}
int nvmlDeviceGetCpuAffinity(void* device, unsigned words, unsigned long* mask) {
    std::memset(mask, 0, words * sizeof *mask);
    if (device == &g_devices[2]) return kNotFound;
    mask[device == &g_devices[1] ? 1 : 0] = 3;
    return kDone;
}
}
