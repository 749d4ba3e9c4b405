#include "worker/train/job/offload_memory.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "worker/train/model/disk_file.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

bool is_on_disk(const fs::path& folder, const Offloaded& offloaded) {
    try {
        check_is_on_disk(folder, offloaded);
        return true;
    } catch (const RankFailure&) {
        return false;
    }
}

fs::path folder_for(const protocol::Launch& launch, const Offloaded& offloaded) {
    const char* const given = std::getenv("TMPDIR");
    if (given != nullptr && *given != '\0' && is_on_disk(given, offloaded)) return given;
    check_is_on_disk(launch.output, offloaded);
    return launch.output;
}

void print_place(const char* what, const fs::path& folder) {
    std::printf("offload: %s in %s\n", what,
                folder.empty() ? "pinned host memory"
                               : ("files on the disk of " + folder.string()).c_str());
}

// Returns the bytes of disk space to reserve for the saved activations of one rank: the plan's
// number and an eighth more. The plan does not count the factors of norms, or the unused bytes at
// the end of pages of the file.
std::int64_t activation_space(spec::TrainSpec spec, const JobPipeline& pipeline, TrainStep& step) {
    spec.optimizer.offload = 0;
    const auto stage = static_cast<std::size_t>(step.groups().pp.rank());
    const std::int64_t planned =
        stage_memory(spec, step.chunks().front().config(), pipeline, false)[stage].offloaded;
    return planned + planned / 8;
}

}  // namespace

StateMemory offload_memory(const spec::TrainSpec& spec, const protocol::Launch& launch, int rank,
                           const Backend& backend) {
    const double share = spec.optimizer.offload;
    if (share == 0) return {};
    const fs::path folder =
        backend.host_memory ? fs::path()
                            : folder_for(launch, {"train.optimizer.offload", "optimizer state"});
    if (rank == 0)
        print_place(share == 1 ? "the optimizer's state is" : "a part of the optimizer's state is",
                    folder);
    return backend.host_memory ? StateMemory(backend.host_memory) : file_memory(folder);
}

void offload_activations(const spec::TrainSpec& spec, const JobPipeline& pipeline,
                         const protocol::Launch& launch, int rank, const Backend& backend,
                         TrainStep& step) {
    if (!spec.offloads_activations) return;
    const fs::path folder =
        backend.host_memory ? fs::path()
                            : folder_for(launch, {"train.activation_offload", "saved activations"});
    if (rank == 0) print_place("saved activations are", folder);
    const std::shared_ptr<SavedStore> store =
        backend.host_memory ? host_store(backend.device, backend.host_memory)
                            : file_store(folder, activation_space(spec, pipeline, step));
    for (Chunk& chunk : step.chunks()) chunk.saved_room().use(store);
}

}  // namespace roll::train
