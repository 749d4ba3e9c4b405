#include "daemon/http/job_files.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace roll::http {
namespace {

constexpr std::uint64_t kWholeMax = 1u << 20;  // a metrics.jsonl of up to this size is read whole
constexpr std::uint64_t kRowBytesMax = 8u << 10;  // bytes that are read to find one row

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

Result<Json> read_log(const files::OpenFile& file, const Json& from) {
    const auto begin =
        from.is_number_unsigned() ? std::optional(from.get<std::uint64_t>()) : std::nullopt;
    ROLL_TRY(const files::Piece piece, files::read_piece(file, begin));
    return Json{{"schema", "roll.log/1"},
                {"from", piece.from},
                {"next", piece.from + piece.bytes.size()},
                {"size", file.size},
                {"text", piece.bytes}};
}

Result<Json> read_metrics_part(const files::OpenFile& file, const Json& from) {
    ROLL_TRY(Json part, read_log(file, from));
    part["inode"] = file.inode;
    part["written"] = file.written.time_since_epoch().count();
    return part;
}

Result<Json> read_metrics(const files::JobPlaces& places, int points) {
    points = std::clamp(points, 2, kPointsMax);
    Json rows = Json::array();
    const auto opened = files::open_metrics(places);
    if (!opened && opened.error().code != ErrorCode::NotFound)
        return tl::unexpected(opened.error());
    if (opened && opened->size <= kWholeMax) {
        ROLL_TRY(const std::string text, files::read_at(*opened, 0, kWholeMax));
        add_rows(text, rows, static_cast<int>(kWholeMax));
        rows = thinned(rows, points);
    } else if (opened) {
        ROLL_TRY(const std::string head, files::read_at(*opened, 0, kRowBytesMax));
        add_rows(head, rows, 1);
        for (int i = 1; i < points; ++i) {
            const std::uint64_t at =
                opened->size / static_cast<std::uint64_t>(points) * static_cast<std::uint64_t>(i);
            ROLL_TRY(const std::string text, files::read_at(*opened, at, kRowBytesMax));
            add_rows(after_line(text), rows, 1);
        }
        ROLL_TRY(const std::string end,
                 files::read_at(*opened, opened->size - kRowBytesMax, kRowBytesMax));
        add_rows(after_line(end), rows, kPointsMax);
    }
    return Json{{"schema", "roll.metric_rows/1"}, {"rows", std::move(rows)}};
}

Result<Json> read_job_file(const std::string& op, const Json& args,
                           const std::filesystem::path& state) {
    const files::JobPlaces places = files::places_of(args.value("output", ""), args);
    if (op == "metrics") return read_metrics(places, args.value("points", kPointsMax));
    if (op == "metrics_part") {
        ROLL_TRY(const files::OpenFile metrics, files::open_metrics(places));
        return read_metrics_part(metrics, args.value("from", Json()));
    }
    const auto attempt = args.value("attempt", 1u);
    ROLL_TRY(const files::OpenFile log,
             files::open_log(places, attempt, args.value("rank", 0u), state));
    ROLL_TRY(Json part, read_log(log, args.value("from", Json())));
    part["attempt"] = attempt;
    return part;
}

}  // namespace roll::http
