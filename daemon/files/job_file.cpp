#include "daemon/files/job_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/spec/job/log_name.hpp"

namespace roll::files {
namespace {

namespace fs = std::filesystem;

// Placeholders in an expanded log name. Each stands for the unknown value of a specifier such as
// %j: kNumber for any number, kNode for any node name.
constexpr char kNumber = '\1';
constexpr char kNode = '\2';
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kNodeCharacters =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._";

tl::unexpected<Error> cannot_read(const fs::path& path, int number) {
    const bool missing = number == ENOENT;
    return fail(missing ? ErrorCode::NotFound : ErrorCode::Failed,
                fmt::format("cannot read {}: {}", path.string(),
                            missing ? "there is no such file" : std::strerror(number)));
}

Result<io::Descriptor> open_directory(const fs::path& path) {
    io::Descriptor directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return cannot_read(path, errno);
    return directory;
}

// Opens the directory `relative` below `root` without following links.
Result<io::Descriptor> open_directory_below(const fs::path& root, const fs::path& relative) {
    ROLL_TRY(io::Descriptor directory, open_directory(root));
    fs::path passed = root;
    for (const fs::path& name : relative) {
        passed /= name;
        constexpr int kFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        io::Descriptor next(::openat(directory.get(), name.c_str(), kFlags));
        if (!next && errno == ENOTDIR)
            return fail(
                ErrorCode::Refused,
                fmt::format(
                    "{} is not a directory, or is a symbolic link, which rolld does not follow",
                    passed.string()));
        if (!next) return cannot_read(passed, errno);
        directory = std::move(next);
    }
    return directory;
}

// Opens the regular file `name` in a directory. Fails if it is a link. `path` is for messages.
Result<OpenFile> open_regular(const io::Descriptor& directory, const fs::path& path) {
    const std::string name = path.filename();
    struct stat status {};
    // Check the kind first, because opening a device can have effects.
    if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
        return cannot_read(path, errno);
    if (S_ISLNK(status.st_mode))
        return fail(
            ErrorCode::Refused,
            path.string() +
                " is a symbolic link; rolld follows only links to files that the job file names");
    constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    if (S_ISREG(status.st_mode)) {
        io::Descriptor file(::openat(directory.get(), name.c_str(), kFlags));
        if (!file || ::fstat(file.get(), &status) != 0) return cannot_read(path, errno);
        const auto written = std::chrono::seconds(status.st_mtim.tv_sec) +
                             std::chrono::nanoseconds(status.st_mtim.tv_nsec);
        if (S_ISREG(status.st_mode))
            return OpenFile{std::move(file), static_cast<std::uint64_t>(status.st_size),
                            Time(std::chrono::floor<Time::duration>(written)), status.st_ino};
    }
    return fail(ErrorCode::Refused, path.string() + " is not a regular file");
}

Result<OpenFile> open_below(const fs::path& root, const fs::path& relative) {
    ROLL_TRY(const io::Descriptor directory, open_directory_below(root, relative.parent_path()));
    return open_regular(directory, root / relative);
}

std::optional<fs::path> link_target(const fs::path& root, const fs::path& relative) {
    const auto directory = open_directory_below(root, relative.parent_path());
    std::array<char, PATH_MAX> text;
    const ssize_t size = !directory ? -1
                                    : ::readlinkat(directory->get(), relative.filename().c_str(),
                                                   text.data(), text.size());
    if (size <= 0 || size == static_cast<ssize_t>(text.size())) return std::nullopt;
    return fs::path(std::string(text.data(), static_cast<std::size_t>(size)));
}

// Returns whether `text` is `pattern` with a number for each kNumber, and the name of a node for
// each kNode.
bool fits(std::string_view text, std::string_view pattern) {
    const auto is_plain = [](char c) { return c != kNumber && c != kNode; };
    while (!pattern.empty() && is_plain(pattern.front())) {
        if (text.empty() || text.front() != pattern.front()) return false;
        text.remove_prefix(1);
        pattern.remove_prefix(1);
    }
    if (pattern.empty()) return text.empty();
    const bool number = pattern.front() == kNumber;
    pattern.remove_prefix(1);
    const std::size_t end = text.find_first_not_of(number ? kDigits : kNodeCharacters);
    for (std::size_t size = 1; size <= std::min(end, text.size()); ++size)
        if (fits(text.substr(size), pattern)) return true;
    return false;
}

// Returns whether roll-worker may have made a link to `target` for this job.
bool is_named(const JobPlaces& places, const fs::path& target) {
    // maximum number of placeholders: fits() tries every length of each value
    constexpr std::ptrdiff_t kValuesMax = 8;
    if (places.log_name.empty()) return false;
    spec::LogNameValues any;
    for (const char letter : std::string_view("AaJjnrt")) any[letter] = kNumber;
    any['N'] = kNode;
    any['s'] = "batch";
    any['x'] = places.job_name;
    const std::string name = spec::expand_log_name(places.log_name, any, true);
    const auto is_value = [](char c) { return c == kNumber || c == kNode; };
    if (std::ranges::count_if(name, is_value) > kValuesMax) return false;
    const fs::path base = places.workdir.empty() ? places.output : fs::path(places.workdir);
    return fits(target.native(), (base / name).lexically_normal().native());
}

bool is_below(const fs::path& path, const fs::path& root) {
    const auto [left, rest] = std::ranges::mismatch(root, path);
    return left == root.end();
}

// Opens a log that the job file names. The user chose the log's directory, so links to this
// directory are allowed. The real path must not be in the state directory, except in the job's
// output.
Result<OpenFile> open_named(const JobPlaces& places, const fs::path& target,
                            const fs::path& state) {
    std::error_code error;
    const fs::path directory = fs::canonical(target.parent_path(), error);
    if (error) return cannot_read(target, error.value());
    const fs::path output = fs::canonical(places.output, error);
    if (error) return cannot_read(places.output, error.value());
    const fs::path kept = fs::canonical(state, error);
    const fs::path file = directory / target.filename();
    if (!error && is_below(file, kept) && !is_below(file, output))
        return fail(ErrorCode::Refused, fmt::format("{} is in rolld's state directory, so it is "
                                                    "not shown as a log",
                                                    file.string()));
    return open_below("/", file.relative_path());
}

fs::path logs_of(std::uint32_t attempt) { return fmt::format("logs/attempt-{}", attempt); }

// Removes an incomplete UTF-8 character from the end of `bytes`.
void drop_incomplete_character(std::string& bytes) {
    constexpr std::size_t kTailMax = 3;  // a character has at most 4 bytes
    for (std::size_t tail = 1; tail <= std::min(kTailMax, bytes.size()); ++tail) {
        const auto byte = static_cast<unsigned char>(bytes[bytes.size() - tail]);
        if ((byte & 0xC0u) == 0x80u) continue;
        const std::size_t size = byte >= 0xF0u ? 4 : byte >= 0xE0u ? 3 : byte >= 0xC0u ? 2 : 1;
        if (size > tail && bytes.size() > tail) bytes.erase(bytes.size() - tail);
        return;
    }
}

}  // namespace

JobPlaces places_of(const fs::path& output, const Json& document) {
    const auto text = [](const Json& json, const char* key) {
        const Json value = json.is_object() ? json.value(key, Json()) : Json();
        return value.is_string() ? value.get<std::string>() : std::string();
    };
    const Json batch = document.is_object() ? document.value("sbatch", Json()) : Json();
    const std::string name = text(batch, "name");
    return {output, text(document, "stdout"), text(document, "workdir"),
            name.empty() ? text(document, "name") : name};
}

Result<OpenFile> open_log(const JobPlaces& places, std::uint32_t attempt, std::uint32_t rank,
                          const fs::path& state) {
    const fs::path log = logs_of(attempt) / fmt::format("rank-{}.log", rank);
    const auto target = link_target(places.output, log);
    if (target && is_named(places, *target)) return open_named(places, *target, state);
    return open_below(places.output, log);
}

Result<OpenFile> open_metrics(const JobPlaces& places) {
    return open_below(places.output, "metrics.jsonl");
}

std::optional<std::uint32_t> newest_with_logs(const JobPlaces& places, std::uint32_t attempts) {
    constexpr std::uint32_t kTriesMax = 100;  // maximum number of searched attempts
    for (std::uint32_t tried = 0; tried < std::min(attempts, kTriesMax); ++tried)
        if (open_directory_below(places.output, logs_of(attempts - tried))) return attempts - tried;
    return std::nullopt;
}

Result<std::string> read_at(const OpenFile& file, std::uint64_t at, std::uint64_t count) {
    std::string text(std::min(count, file.size - std::min(at, file.size)), '\0');
    std::size_t read = 0;
    while (read < text.size()) {
        const ssize_t got = ::pread(file.descriptor.get(), text.data() + read, text.size() - read,
                                    static_cast<off_t>(at + read));
        if (got < 0)
            return fail(ErrorCode::Failed, std::string("cannot read: ") + std::strerror(errno));
        if (got == 0) break;
        read += static_cast<std::size_t>(got);
    }
    text.resize(read);
    return text;
}

Result<Piece> read_piece(const OpenFile& file, std::optional<std::uint64_t> from,
                         std::uint64_t count) {
    count = std::min<std::uint64_t>(count, kPieceBytesMax);
    const std::uint64_t tail = file.size - std::min(file.size, count);
    const std::uint64_t begin = from && *from <= file.size ? *from : tail;
    ROLL_TRY(std::string bytes, read_at(file, begin, count));
    if (begin + bytes.size() < file.size) drop_incomplete_character(bytes);
    return Piece{begin, std::move(bytes)};
}

}  // namespace roll::files
