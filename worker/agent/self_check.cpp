#include "worker/agent/self_check.hpp"

#include <filesystem>

#include "common/files.hpp"
#include "worker/agent/host.hpp"
#include "worker/agent/nvml.hpp"

namespace roll::agent {

Result<void> check_node(const std::string& directory, int gpus) {
    constexpr std::size_t kBytes = 1 << 20;
    const std::string file = directory + "/.check-" + host_name() + "-" + draw_session();
    const std::string written(kBytes, 'x');
    const auto wrote = write_file_atomically(file, written);
    const auto read = wrote ? read_file(file) : Result<std::string>(std::string());
    std::error_code error;
    std::filesystem::remove(file, error);
    if (!wrote) return tl::unexpected(wrote.error());
    if (!read) return tl::unexpected(read.error());
    if (*read != written)
        return fail(ErrorCode::Corrupt, directory + " gives back other bytes than were written");
    const int found = gpus > 0 ? count_gpus() : 0;
    if (found < gpus)
        return fail(ErrorCode::Failed, "NVML shows " + std::to_string(found) +
                                           " GPUs; this worker offers " + std::to_string(gpus));
    return {};
}

}  // namespace roll::agent
