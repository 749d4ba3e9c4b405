#include "worker/checkpoint/staging.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "common/files.hpp"
#include "worker/checkpoint/manifest.hpp"
#include "worker/checkpoint/optimizer_index.hpp"
#include "worker/checkpoint/part.hpp"
#include "worker/checkpoint/state.hpp"

namespace roll::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTrashPrefix = ".trash-";

tl::unexpected<Error> failed(const std::string& what, const fs::path& path,
                             const std::error_code& error) {
    const bool refused = error == std::errc::no_space_on_device ||
                         error == std::errc::permission_denied ||
                         error == std::errc::operation_not_permitted ||
                         error == std::errc::read_only_file_system || error.value() == EDQUOT;
    return fail(refused ? ErrorCode::Refused : ErrorCode::Failed,
                what + " " + path.string() + ": " + error.message());
}

// The destructor removes the directory if keep() was not called.
class Leftover {
  public:
    explicit Leftover(fs::path directory) : directory_(std::move(directory)) {}
    Leftover(const Leftover&) = delete;
    Leftover& operator=(const Leftover&) = delete;
    ~Leftover() {
        std::error_code ignored;
        if (!directory_.empty()) fs::remove_all(directory_, ignored);
    }
    void keep() { directory_.clear(); }

  private:
    fs::path directory_;
};

Result<void> fsync_file(const fs::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return failed("cannot open", path, {errno, std::generic_category()});
    const int done = ::fsync(fd);
    const std::error_code error(errno, std::generic_category());
    ::close(fd);
    if (done != 0) return failed("cannot sync", path, error);
    return {};
}

Result<void> fsync_tree(const fs::path& directory) {
    std::error_code error;
    for (fs::recursive_directory_iterator walk(directory, error), end; !error && walk != end;
         walk.increment(error)) {
        if (walk->is_directory()) {
            ROLL_TRY_VOID(fsync_directory(walk->path()));
        } else {
            ROLL_TRY_VOID(fsync_file(walk->path()));
        }
    }
    if (error) return failed("cannot list", directory, error);
    return fsync_directory(directory);
}

// Syncs the directory and writes the manifest. `known`: manifest entries of the files whose hashes
// were computed while the files were written.
Result<void> seal(const fs::path& directory, const Name& name, std::vector<FileEntry> known = {}) {
    ROLL_TRY_VOID(make_directories(directory / kFolder));
    ROLL_TRY_VOID(fsync_tree(directory));
    ROLL_TRY(std::vector<FileEntry> files, hash_files(directory, std::move(known)));
    return write_file_atomically(directory / kManifestFile,
                                 encode(Manifest{name, std::move(files)}));
}

Result<void> remove_tree(const fs::path& directory) {
    std::error_code error;
    fs::remove_all(directory, error);
    if (error) return failed("cannot delete", directory, error);
    return {};
}

}  // namespace

Result<fs::path> stage(const fs::path& checkpoints, const Name& name, const Fill& fill) {
    const fs::path directory = checkpoints / staged_name(name);
    ROLL_TRY_VOID(remove_tree(directory));
    Leftover leftover(directory);
    ROLL_TRY_VOID(make_directories(directory));
    ROLL_TRY_VOID(fill(directory));
    ROLL_TRY_VOID(seal(directory, name));
    ROLL_TRY_VOID(fsync_directory(checkpoints));
    leftover.keep();
    return directory;
}

Result<fs::path> begin_stage(const fs::path& checkpoints, const Name& name) {
    const fs::path directory = checkpoints / staged_name(name);
    ROLL_TRY_VOID(remove_tree(directory));
    ROLL_TRY_VOID(make_directories(directory));
    return directory;
}

Result<fs::path> seal_parts(const fs::path& checkpoints, const Name& name, int ranks,
                            const Fill& fill) {
    const fs::path directory = checkpoints / staged_name(name);
    Leftover leftover(directory);
    ROLL_TRY(std::vector<FileEntry> files, join_parts(directory, name, ranks));
    ROLL_TRY_VOID(fill(directory));
    ROLL_TRY_VOID(seal(directory, name, std::move(files)));
    ROLL_TRY_VOID(fsync_directory(checkpoints));
    leftover.keep();
    return directory;
}

void drop_stage(const fs::path& checkpoints, const Name& name) {
    const Leftover dropped(checkpoints / staged_name(name));
}

Result<void> remove(const fs::path& checkpoints, const Name& name) {
    const fs::path from = checkpoints / final_name(name);
    const fs::path trash = checkpoints / (std::string(kTrashPrefix) + final_name(name));
    std::error_code error;
    fs::rename(from, trash, error);
    const bool is_gone = error == std::errc::no_such_file_or_directory;
    if (error && !is_gone) return failed("cannot delete", from, error);
    if (!is_gone) ROLL_TRY_VOID(fsync_directory(checkpoints));
    return remove_tree(trash);
}

Result<void> drop_optimizer(const fs::path& checkpoints, const Name& name) {
    const fs::path directory = checkpoints / final_name(name);
    std::error_code error;
    if (!fs::exists(directory / kOptimizerFile, error) &&
        !fs::exists(directory / kOptimizerFolder, error))
        return {};
    ROLL_TRY(const std::string text, read_file(directory / kManifestFile));
    ROLL_TRY(Manifest manifest, decode_manifest(text));
    std::erase_if(manifest.files,
                  [](const FileEntry& entry) { return is_optimizer_state(entry.path); });
    // First write the new manifest outside the checkpoint, because a checkpoint may not contain
    // files that its manifest does not list.
    const fs::path draft = checkpoints / (std::string(kTrashPrefix) + "manifest");
    ROLL_TRY_VOID(write_file_atomically(draft, encode(manifest)));
    fs::rename(draft, directory / kManifestFile, error);
    if (error) return failed("cannot rename to", directory / kManifestFile, error);
    ROLL_TRY_VOID(fsync_directory((directory / kManifestFile).parent_path()));
    ROLL_TRY_VOID(remove_tree(directory / kOptimizerFile));
    return remove_tree(directory / kOptimizerFolder);
}

Result<void> prove(const fs::path& checkpoints, const Token& writer) {
    constexpr std::size_t kBytes = 1 << 16;
    const auto fill = [&](const fs::path& directory) {
        return write_file_atomically(directory / "probe", std::string(kBytes, 'x'));
    };
    ROLL_TRY(const fs::path staged, stage(checkpoints, {0, writer}, fill));
    const auto verified = verify(staged);
    ROLL_TRY_VOID(remove_tree(staged));
    if (!verified) return tl::unexpected(verified.error());
    return {};
}

Result<Swept> sweep(const fs::path& checkpoints, const Token& writer) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator walk(checkpoints, error), end; !error && walk != end;
         walk.increment(error)) {
        const std::string name = walk->path().filename().string();
        const auto staged = parse_staged_name(name);
        if (name.starts_with(kTrashPrefix) || (staged && staged->writer < writer))
            found.push_back(walk->path());
    }
    if (error && error != std::errc::no_such_file_or_directory)
        return failed("cannot list", checkpoints, error);
    Swept swept;
    for (const fs::path& path : found) {
        const auto done = remove_tree(path);
        if (done) ++swept.removed;
        if (!done) swept.left.push_back(done.error().message);
    }
    return swept;
}

}  // namespace roll::checkpoint
