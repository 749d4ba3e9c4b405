#include "daemon/files/request.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "daemon/files/job_file.hpp"

namespace roll::files {
namespace {

struct Found {
    OpenFile file;
    std::filesystem::path path;
    std::uint32_t attempt = 0;
};

Result<Found> find_log(const JobFileRequest& request, const JobPlaces& places,
                       const std::filesystem::path& state) {
    constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
    const std::uint64_t asked = request.args.attempt.value_or(0);
    if (asked > request.attempts)
        return fail(
            ErrorCode::NotFound,
            fmt::format("job {} has no attempt {}; it has had {} attempt{}", request.args.id, asked,
                        request.attempts, request.attempts == 1 ? "" : "s"),
            fmt::format("rollctl show {}", request.args.id));
    const auto attempt = asked > 0 ? std::optional(static_cast<std::uint32_t>(asked))
                                   : newest_with_logs(places, request.attempts);
    if (!attempt)
        return fail(ErrorCode::NotFound,
                    fmt::format("there is no log in {}/logs yet", places.output.string()));
    const auto rank = static_cast<std::uint32_t>(std::min(request.args.rank, kMax));
    const auto path =
        places.output / "logs" / fmt::format("attempt-{}/rank-{}.log", *attempt, rank);
    auto file = open_log(places, *attempt, rank, state);
    if (!file && file.error().code == ErrorCode::NotFound)
        return fail(ErrorCode::NotFound, fmt::format("there is no log {}", path.string()));
    if (!file) return tl::unexpected(file.error());
    return Found{*std::move(file), path, *attempt};
}

Result<Found> find_metrics(const JobPlaces& places) {
    ROLL_TRY(OpenFile file, open_metrics(places));
    return Found{std::move(file), places.output / "metrics.jsonl"};
}

}  // namespace

Result<Json> read_job_file(const JobFileRequest& request, const std::filesystem::path& state) {
    // The job file was checked at submission. A document that is not JSON names no log.
    const auto document = parse_json(request.document);
    const JobPlaces places = places_of(request.output, document ? *document : Json());
    ROLL_TRY(const Found found, request.args.file == protocol::kMetricsFile
                                    ? find_metrics(places)
                                    : find_log(request, places, state));
    const std::uint64_t bytes =
        std::min(request.args.bytes.value_or(kReplyBytesMax), kReplyBytesMax);
    ROLL_TRY(const Piece piece, read_piece(found.file, request.args.from, bytes));
    protocol::JobFileReply reply{.file = found.path,
                                 .attempt = found.attempt,
                                 .from = piece.from,
                                 .next = piece.from + piece.bytes.size(),
                                 .size = found.file.size,
                                 .written = found.file.written.time_since_epoch().count()};
    reply.text = protocol::text_of_bytes(piece.bytes, reply.latin1);
    return protocol::reply_json(std::move(reply), protocol::JobFileArgs::kOperation.reply);
}

}  // namespace roll::files
