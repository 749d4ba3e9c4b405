#include "worker/convert/write/staging.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/files.hpp"
#include "worker/formats/nemo.hpp"
#include "worker/formats/tar.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> fail_errno(const char* what, const fs::path& path) {
    const int number = errno;
    const bool refused = number == ENOSPC || number == EDQUOT || number == EACCES ||
                         number == EPERM || number == EROFS || number == EEXIST;
    return fail(
        refused ? ErrorCode::Refused : ErrorCode::Failed,
        std::string(what) + " " + path.string() + ": " + std::generic_category().message(number));
}

bool is_archive(const fs::path& path) {
    if (!formats::is_nemo_archive(path)) return false;
    const auto file = MappedFile::open(path);
    return file && formats::parse_tar(file->bytes());
}

// Fails if the target exists and may not be replaced. With `overwrite`, only the output of a
// conversion may be replaced, that is, a directory with a model's config, or an archive.
Result<void> check_target(const fs::path& target, bool overwrite) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(target, error);
    if (status.type() == fs::file_type::not_found) return {};
    const bool archive = status.type() == fs::file_type::regular && is_archive(target);
    if (status.type() != fs::file_type::directory && !archive)
        return fail(ErrorCode::Refused,
                    target.string() + " exists and is not a directory; choose another target");
    if (!archive && fs::is_empty(target, error)) return {};
    if (!overwrite)
        return fail(ErrorCode::Refused, target.string() + " already exists",
                    "--overwrite replaces it");
    if (archive) return {};
    if (!fs::exists(target / "config.json", error) &&
        !fs::exists(target / "mca_config.json", error) && !fs::exists(target / ".metadata", error))
        return fail(ErrorCode::Refused, target.string() +
                                            " is not a checkpoint; --overwrite replaces only "
                                            "checkpoints, so choose another target");
    return {};
}

// Locks the directory itself, so that the lock disappears together with the directory. Returns the
// file descriptor that holds the lock.
Result<int> lock_directory(const fs::path& directory) {
    const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return fail_errno("cannot open", directory);
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
        ::close(fd);
        return fail(ErrorCode::Refused, "another conversion is writing " + directory.string());
    }
    return fd;
}

Result<void> remove_tree(const fs::path& path) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error)
        return fail(ErrorCode::Failed, "cannot remove " + path.string() + ": " + error.message());
    return {};
}

Result<void> clean_stale(const fs::path& directory) {
    std::error_code error;
    if (fs::symlink_status(directory, error).type() != fs::file_type::directory) return {};
    ROLL_TRY(const int lock, lock_directory(directory));
    const auto removed = remove_tree(directory);
    ::close(lock);
    return removed;
}

fs::path without_slash(const fs::path& target) {
    const fs::path clean = fs::absolute(target).lexically_normal();
    return clean.has_filename() ? clean : clean.parent_path();
}

}  // namespace

Result<void> check_apart(const fs::path& source, const fs::path& target) {
    if (source.empty() || target.empty())
        return fail(ErrorCode::InvalidArgument,
                    "the path of the source or of the target is empty; give both");
    const fs::path from = fs::weakly_canonical(source);
    const fs::path to = fs::weakly_canonical(target);
    const fs::path relative = from.lexically_relative(to);
    const bool inside = !relative.empty() && *relative.begin() != "..";
    if (from == to || inside)
        return fail(ErrorCode::InvalidArgument,
                    "the target " + to.string() + " contains the source " + from.string());
    return {};
}

fs::path staging_of(const fs::path& target) {
    const fs::path path = without_slash(target);
    return path.parent_path() / ("." + path.filename().string() + ".roll-staging");
}

Result<Staging> Staging::begin(const fs::path& target, bool overwrite) {
    const fs::path final_path = without_slash(target);
    ROLL_TRY_VOID(check_target(final_path, overwrite));
    ROLL_TRY_VOID(make_directories(final_path.parent_path()));
    const fs::path directory = staging_of(final_path);
    ROLL_TRY_VOID(clean_stale(directory));
    if (::mkdir(directory.c_str(), 0777) != 0) return fail_errno("cannot create", directory);
    ROLL_TRY(const int lock, lock_directory(directory));
    return Staging(final_path, directory, lock);
}

Staging::Staging(Staging&& other) noexcept
    : target_(std::move(other.target_)),
      directory_(std::move(other.directory_)),
      lock_(std::exchange(other.lock_, -1)) {
    other.directory_.clear();
}

Staging::~Staging() {
    if (!directory_.empty()) {
        std::error_code ignored;
        fs::remove_all(directory_, ignored);
    }
    if (lock_ >= 0) ::close(lock_);
}

Result<void> Staging::publish() {
    std::error_code error;
    for (auto entry = fs::recursive_directory_iterator(directory_, error);
         entry != fs::recursive_directory_iterator(); entry.increment(error)) {
        if (error) break;
        if (entry->is_directory(error)) ROLL_TRY_VOID(fsync_directory(entry->path()));
    }
    if (error) return fail(ErrorCode::Failed, directory_.string() + ": " + error.message());
    ROLL_TRY_VOID(fsync_directory(directory_));
    bool replaced = false;
    ROLL_TRY_VOID(move_to_target(directory_, replaced));
    const fs::path left = std::exchange(directory_, {});
    return replaced ? remove_tree(left) : Result<void>();
}

Result<void> Staging::publish_file(const std::string& name) {
    bool replaced = false;
    ROLL_TRY_VOID(move_to_target(directory_ / name, replaced));
    return remove_tree(std::exchange(directory_, {}));
}

// Renames `from` to the target. If the target exists and is not empty, exchanges the two and sets
// `replaced`. The old target is then at the path `from`.
Result<void> Staging::move_to_target(const fs::path& from, bool& replaced) {
    ROLL_TRY_VOID(check_mapped_files());
    std::error_code error;
    replaced = fs::exists(target_, error) && !fs::is_empty(target_, error);
    if (replaced && ::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, target_.c_str(),
                              RENAME_EXCHANGE) != 0)
        return fail_errno("cannot replace", target_);
    if (!replaced && ::rename(from.c_str(), target_.c_str()) != 0)
        return fail_errno("cannot rename to", target_);
    return fsync_directory(target_.parent_path());
}

}  // namespace roll::convert
