#include "worker/train/job/offload_memory.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

bool is_on_disk(const fs::path& folder) {
    try {
        check_is_on_disk(folder);
        return true;
    } catch (const RankFailure&) {
        return false;
    }
}

fs::path folder_for(const protocol::Launch& launch) {
    const char* const given = std::getenv("TMPDIR");
    if (given != nullptr && *given != '\0' && is_on_disk(given)) return given;
    check_is_on_disk(launch.output);
    return launch.output;
}

}  // namespace

StateMemory offload_memory(const protocol::Launch& launch, int rank, const Backend& backend) {
    const fs::path folder = backend.host_memory ? fs::path() : folder_for(launch);
    if (rank == 0)
        std::printf("offload: the optimizer's state is in %s\n",
                    backend.host_memory ? "pinned host memory"
                                        : ("files on the disk of " + folder.string()).c_str());
    return backend.host_memory ? StateMemory(backend.host_memory) : file_memory(folder);
}

}  // namespace roll::train
