#include "worker/agent/host/links.hpp"

#include <algorithm>

#include "common/files.hpp"

namespace roll::agent {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const fs::path& directory) {
    std::error_code error;
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(directory, error)) paths.push_back(entry);
    return paths;
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

}  // namespace roll::agent
