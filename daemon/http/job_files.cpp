#include "daemon/http/job_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/io/descriptor.hpp"

namespace roll::http {
namespace {

constexpr std::uint64_t kWholeMax = 1u << 20;  // a metrics.jsonl of up to this size is read whole
constexpr std::uint64_t kRowBytesMax = 8u << 10;  // bytes that are read to find one row

struct Opened {
    io::Descriptor descriptor;
    std::uint64_t size = 0;
};

// Opens a regular file. Follows links, because with `output` a rank's log is a link to the file
// that the user named.
Result<Opened> open_regular(const std::filesystem::path& path) {
    io::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0)
        return fail(errno == ENOENT ? ErrorCode::NotFound : ErrorCode::Failed,
                    fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
    if (!S_ISREG(status.st_mode))
        return fail(ErrorCode::Failed, path.string() + " is not a regular file");
    return Opened{std::move(file), static_cast<std::uint64_t>(status.st_size)};
}

Result<std::string> read_at(const Opened& file, std::uint64_t at, std::uint64_t count) {
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

// Parses the complete lines of `text`. Appends at most `count` of their rows to `rows`.
void add_rows(std::string_view text, Json& rows, int count) {
    for (std::size_t end = text.find('\n'); end != std::string_view::npos && count > 0;
         end = text.find('\n')) {
        Json row = Json::parse(text.substr(0, end), nullptr, false);
        text.remove_prefix(end + 1);
        if (!row.is_object() || (!rows.empty() && rows.back() == row)) continue;
        rows.push_back(std::move(row));
        --count;
    }
}

// Returns `text` without its first, possibly incomplete, line.
std::string_view after_line(std::string_view text) {
    const std::size_t end = text.find('\n');
    return end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
}

Json thinned(const Json& rows, int points) {
    const auto count = static_cast<std::size_t>(points);
    if (rows.size() <= count) return rows;
    Json kept = Json::array();
    for (std::size_t i = 0; i < count; ++i)
        kept.push_back(rows[i * (rows.size() - 1) / (count - 1)]);
    return kept;
}

}  // namespace

Result<Json> read_log(const std::filesystem::path& file, const Json& from) {
    ROLL_TRY(const Opened opened, open_regular(file));
    const std::uint64_t tail = opened.size - std::min<std::uint64_t>(opened.size, kLogBytesMax);
    std::uint64_t begin = from.is_number_unsigned() ? from.get<std::uint64_t>() : tail;
    if (begin > opened.size) begin = tail;
    ROLL_TRY(const std::string text, read_at(opened, begin, kLogBytesMax));
    return Json{{"schema", "roll.log/1"},
                {"from", begin},
                {"next", begin + text.size()},
                {"size", opened.size},
                {"text", text}};
}

Result<Json> read_metrics(const std::filesystem::path& file, int points) {
    points = std::clamp(points, 2, kPointsMax);
    Json rows = Json::array();
    const auto opened = open_regular(file);
    if (!opened && opened.error().code != ErrorCode::NotFound)
        return tl::unexpected(opened.error());
    if (opened && opened->size <= kWholeMax) {
        ROLL_TRY(const std::string text, read_at(*opened, 0, kWholeMax));
        add_rows(text, rows, static_cast<int>(kWholeMax));
        rows = thinned(rows, points);
    } else if (opened) {
        ROLL_TRY(const std::string head, read_at(*opened, 0, kRowBytesMax));
        add_rows(head, rows, 1);
        for (int i = 1; i < points; ++i) {
            const std::uint64_t at =
                opened->size / static_cast<std::uint64_t>(points) * static_cast<std::uint64_t>(i);
            ROLL_TRY(const std::string text, read_at(*opened, at, kRowBytesMax));
            add_rows(after_line(text), rows, 1);
        }
        ROLL_TRY(const std::string end,
                 read_at(*opened, opened->size - kRowBytesMax, kRowBytesMax));
        add_rows(after_line(end), rows, kPointsMax);
    }
    return Json{{"schema", "roll.metric_rows/1"}, {"rows", std::move(rows)}};
}

Result<Json> read_job_file(const std::string& op, const Json& args) {
    if (op == "metrics_part")
        return read_log(args.value("output", "") + "/metrics.jsonl", args.value("from", Json()));
    const std::filesystem::path file = args.value("file", "");
    if (op == "log") return read_log(file, args.value("from", Json()));
    return read_metrics(file, args.value("points", kPointsMax));
}

}  // namespace roll::http
