#include "cli/client/local.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "cli/client/context.hpp"
#include "common/files.hpp"
#include "common/io/process.hpp"

namespace roll::cli {

namespace fs = std::filesystem;

Result<std::string> program_path(const std::string& name) {
    const fs::path beside = fs::path(io::own_program()).parent_path() / name;
    if (::access(beside.c_str(), X_OK) == 0) return beside.string();
    return fail(ErrorCode::NotFound, "program not found: " + beside.string(),
                "cmake --build --preset release --target " + name);
}

Result<pid_t> start_in_background(const std::vector<std::string>& arguments, const fs::path& log) {
    const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        return fail(ErrorCode::Refused,
                    "cannot write " + log.string() + ": " + std::strerror(errno));
    }
    io::Spawn spawn;
    spawn.arguments = arguments;
    spawn.environment = io::current_environment();
    spawn.directory = "/";
    spawn.descriptors = {{fd, STDOUT_FILENO}, {fd, STDERR_FILENO}};
    spawn.new_session = true;
    auto pid = io::spawn(spawn);
    ::close(fd);
    return pid;
}

bool wait_gone(pid_t pid, std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (io::is_alive(pid)) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        pause(std::chrono::milliseconds(50));
    }
    return true;
}

std::string last_lines(const fs::path& file, std::size_t count, std::uintmax_t since) {
    const auto text = read_file(file);
    if (!text) return "";
    std::size_t from = text->size();
    for (std::size_t lines = 0; from > since && lines <= count; --from) {
        lines += (*text)[from - 1] == '\n' ? 1 : 0;
        if (lines > count) break;
    }
    return text->substr(from);
}

}  // namespace roll::cli
