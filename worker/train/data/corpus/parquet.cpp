#include "worker/train/data/corpus/parquet.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/hash.hpp"
#include "common/json.hpp"
#include "worker/train/data/corpus/file_lock.hpp"

namespace roll::data {
namespace {

namespace fs = std::filesystem;

// interval at which await() checks whether roll-parquet has ended
constexpr std::chrono::milliseconds kLook(50);

tl::unexpected<Error> not_installed(const fs::path& source) {
    return fail(ErrorCode::NotFound,
                source.string() +
                    ": roll-parquet, which reads such files through Apache Arrow, is not "
                    "installed; run packaging/setup --parquet and build again, or convert the "
                    "file to .jsonl");
}

// Starts roll-parquet, which writes to the files `lines` and `errors`. Returns its pid, or a
// negative error number.
pid_t start(const fs::path& program, const fs::path& source, const fs::path& lines,
            const fs::path& errors) {
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    constexpr int kWrites = O_WRONLY | O_CREAT | O_TRUNC;
    ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, lines.c_str(), kWrites, 0666);
    ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, errors.c_str(), kWrites, 0666);
    ::posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
    std::string name = program, file = source;
    char* const arguments[] = {name.data(), file.data(), nullptr};
    pid_t pid = 0;
    const int error = ::posix_spawn(&pid, name.c_str(), &files, nullptr, arguments, ::environ);
    ::posix_spawn_file_actions_destroy(&files);
    return error == 0 ? pid : -error;
}

// Waits until the program ends, and returns its status. If `goes_on` returns false, kills the
// program and returns nullopt.
std::optional<int> await(pid_t pid, const std::function<bool()>& goes_on) {
    int status = 0;
    for (;;) {
        const pid_t ended = ::waitpid(pid, &status, WNOHANG);
        if (ended == pid) return status;
        if (ended < 0 && errno != EINTR) return -1;
        if (!goes_on()) {
            ::kill(pid, SIGKILL);
            ::waitpid(pid, &status, 0);
            return std::nullopt;
        }
        std::this_thread::sleep_for(kLook);
    }
}

// Makes the .jsonl `target` from the .parquet `source`. Returns false if `goes_on` returned false.
Result<bool> make_lines(const fs::path& source, const fs::path& target, const struct stat& info,
                        const std::function<bool()>& goes_on) {
    std::error_code error;
    const fs::path program =
        fs::read_symlink("/proc/self/exe", error).parent_path() / "roll-parquet";
    if (!fs::exists(program, error)) return not_installed(source);
    const fs::path draft = fs::path(target) += ".draft", errors = fs::path(target) += ".err";
    const pid_t pid = start(program, source, draft, errors);
    if (pid < 0)
        return fail(ErrorCode::Failed, "cannot start " + program.string() + ": " +
                                           std::generic_category().message(-pid));
    const auto status = await(pid, goes_on);
    const std::string told = read_file(errors).value_or("");
    fs::remove(errors, error);
    if (!status || *status != 0) fs::remove(draft, error);
    if (!status) return false;
    if (*status != 0)
        return fail(WIFEXITED(*status) ? ErrorCode::InvalidArgument : ErrorCode::Failed,
                    "data: " + (told.empty() ? source.string() + ": roll-parquet was killed"
                                             : told.substr(0, told.find('\n'))));
    const timespec times[] = {info.st_mtim, info.st_mtim};
    const int fd = ::open(draft.c_str(), O_RDONLY | O_CLOEXEC);
    const bool synced = fd >= 0 && ::futimens(fd, times) == 0 && ::fsync(fd) == 0;
    const int why = errno;
    if (fd >= 0) ::close(fd);
    if (!synced || ::rename(draft.c_str(), target.c_str()) != 0)
        return fail(ErrorCode::Failed,
                    target.string() + ": " + std::generic_category().message(synced ? errno : why));
    ROLL_TRY_VOID(fsync_directory(target.parent_path()));
    return true;
}

}  // namespace

bool is_parquet(const fs::path& path) { return path.extension() == ".parquet"; }

Result<std::optional<fs::path>> lines_of_parquet(const fs::path& source, const fs::path& directory,
                                                 const GoOn& go_on) {
    struct stat info {};
    if (::stat(source.c_str(), &info) != 0)
        return fail(ErrorCode::NotFound,
                    source.string() + ": " + std::generic_category().message(errno));
    const Json key{source.string(), info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
    const fs::path target =
        directory / (source.stem().string() + "-" + to_hex(hash64(key.dump())) + ".jsonl");
    if (path_exists(target)) return std::optional(target);
    const auto goes_on = [&] { return go_on({0, static_cast<std::uint64_t>(info.st_size)}); };
    ROLL_TRY_VOID(make_directories(directory));
    ROLL_TRY(const auto lock,
             FileLock::take(fs::path(target) += ".lock", [&](int) { return goes_on(); }));
    if (!lock) return std::optional<fs::path>();
    if (path_exists(target)) return std::optional(target);
    ROLL_TRY(const bool made, make_lines(source, target, info, goes_on));
    return made ? std::optional(target) : std::nullopt;
}

}  // namespace roll::data
