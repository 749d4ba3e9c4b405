#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands/commands.hpp"
#include "common/io/run.hpp"

namespace roll::cli {

Error become(const std::string& program, const std::vector<std::string>& arguments) {
    const auto beside = std::filesystem::path(io::own_program()).parent_path() / program;
    const std::string path = beside;
    std::vector<char*> argv = {const_cast<char*>(path.c_str())};
    for (const std::string& argument : arguments) {
        argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    // Limit how long waiting threads of roll-rank spin. On shared cores, spinning threads take time
    // from working threads: generating 16 tokens took 23 s instead of 8 s. libgomp reads
    // GOMP_SPINCOUNT when libgomp is loaded, so set the variable before.
    if (program == "roll-rank" && std::getenv("OMP_WAIT_POLICY") == nullptr)
        ::setenv("GOMP_SPINCOUNT", "1000", /*replace=*/0);
    ::execv(path.c_str(), argv.data());
    if (errno == ENOENT) ::execvp(program.c_str(), argv.data());
    const ErrorCode code = errno == ENOENT ? ErrorCode::NotFound : ErrorCode::Failed;
    return {code, "cannot run " + path + ": " + std::strerror(errno), "rollctl doctor"};
}

Result<std::string> in_memory(const std::string& content) {
    ROLL_TRY(const io::Descriptor file, io::memory_file(content));
    return fmt::format("/proc/self/fd/{}", ::dup(file.get()));  // the copy is not close-on-exec
}

}  // namespace roll::cli
