#include "worker/agent/host/self_check.hpp"

#include <algorithm>
#include <filesystem>

#include "common/files.hpp"
#include "worker/agent/host/host.hpp"
#include "worker/agent/host/nvml.hpp"

namespace roll::agent {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const fs::path& directory) {
    std::error_code error;
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(directory, error)) paths.push_back(entry);
    return paths;
}

Result<void> check_directory(const std::string& directory) {
    constexpr std::size_t kBytes = 1 << 20;
    constexpr std::uintmax_t kLeastFree = 1 << 30;
    const std::string file = directory + "/.check-" + host_name() + "-" + draw_session();
    const std::string written(kBytes, 'x');
    const auto wrote = write_file_atomically(file, written);
    const auto read = wrote ? read_file(file) : Result<std::string>(std::string());
    std::error_code error;
    std::filesystem::remove(file, error);
    if (!wrote) return tl::unexpected(wrote.error());
    if (!read) return tl::unexpected(read.error());
    if (*read != written)
        return fail(
            ErrorCode::Corrupt,
            directory +
                ": a test file was read back with other content than was written; check the disk");
    const auto space = std::filesystem::space(directory, error);
    if (!error && space.available < kLeastFree)
        return fail(ErrorCode::Failed, directory + " has " + std::to_string(space.available >> 20) +
                                           " MiB free; at least 1024 MiB are required");
    return {};
}

Result<void> check_gpus(int count, const std::vector<std::string>& names) {
    const int found = count > 0 ? count_gpus() : 0;
    if (found < count)
        return fail(ErrorCode::Failed,
                    "number of GPUs that NVML shows: " + std::to_string(found) +
                        "; number that this worker offers: " + std::to_string(count));
    for (const std::string& name : names) {
        const std::string fault = gpu_fault(name);
        if (!fault.empty()) return fail(ErrorCode::Failed, "GPU " + name + " " + fault);
    }
    return {};
}

}  // namespace

std::vector<std::string> links_up(const fs::path& sys) {
    std::vector<std::string> up;
    std::error_code error;
    for (const fs::path& link : entries(sys / "class/net")) {
        // Bridges, tunnels and loopback have no hardware device, and so lack this
        // entry.
        const bool device = fs::exists(link / "device", error);
        if (device && read_file(link / "operstate").value_or("").starts_with("up"))
            up.push_back(link.filename());
    }
    for (const fs::path& device : entries(sys / "class/infiniband")) {
        for (const fs::path& port : entries(device / "ports")) {
            if (read_file(port / "state").value_or("").find("ACTIVE") != std::string::npos)
                up.push_back(device.filename().string() + "/" + port.filename().string());
        }
    }
    std::ranges::sort(up);
    return up;
}

Result<void> check_node(const NodeNeeds& needs) {
    ROLL_TRY_VOID(check_directory(needs.directory));
    ROLL_TRY_VOID(check_gpus(needs.gpus, needs.names));
    const std::vector<std::string> up = links_up("/sys");
    for (const std::string& link : needs.links) {
        if (std::ranges::find(up, link) == up.end())
            return fail(ErrorCode::Failed,
                        "network link " + link + " is down; it was up when roll-worker started");
    }
    return {};
}

}  // namespace roll::agent
