// The operations on the files of jobs.
#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>

#include "common/base64.hpp"
#include "common/protocol/file_operations.hpp"
#include "common/spec/job/staged_files.hpp"
#include "daemon/api/operations.hpp"

namespace roll::api {
namespace {

// A job may have printed secrets, so only its owner and the operator may read its files.
Result<Plan> job_file(const Context& context, const Caller& who,
                      const protocol::JobFileArgs& args) {
    const std::string& file = args.file;
    if (!file.empty() && file != protocol::kLogFile && file != protocol::kMetricsFile)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("the file is {}; allowed: {} or {}", file.substr(0, 60),
                                protocol::kLogFile, protocol::kMetricsFile));
    const auto found = context.state.jobs.find(JobId{args.id});
    if (found == context.state.jobs.end())
        return fail(ErrorCode::NotFound, fmt::format("there is no job {}", args.id),
                    "rollctl jobs -a");
    ROLL_TRY_VOID(owns(context, who, {found->first}));
    const core::Job& job = found->second;
    return ReadJobFile{{args, job.spec.output, job.spec.document.text(),
                        static_cast<std::uint32_t>(job.attempts)}};
}

Result<Plan> pieces_missing(const Context& context, const Caller&,
                            const protocol::PiecesMissingArgs& args) {
    const auto wrong = std::ranges::find_if_not(args.pieces, spec::is_sha256);
    if (wrong != args.pieces.end())
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("the piece is {}; allowed: a SHA-256 in 64 lower-case hex digits",
                                wrong->substr(0, 80)));
    const protocol::PiecesMissingReply reply{
        context.pieces.missing(args.pieces, std::chrono::steady_clock::now()),
        context.pieces.job_bytes_max()};
    return ReplyNow{protocol::reply_json(reply, protocol::PiecesMissingArgs::kOperation.reply)};
}

Result<Plan> piece_put(const Context& context, const Caller& who,
                       const protocol::PiecePutArgs& args) {
    const auto bytes = from_base64(args.data);
    if (!bytes)
        return fail(ErrorCode::InvalidArgument, "`data` is not base64; encode the piece as base64");
    ROLL_TRY(std::string piece,
             context.pieces.put(*bytes, std::chrono::steady_clock::now(), who.user));
    return ReplyNow{protocol::reply_json(protocol::PiecePutReply{std::move(piece)},
                                         protocol::PiecePutArgs::kOperation.reply)};
}

}  // namespace

std::span<const ServedOperation> file_operations() {
    static constexpr std::array kOperations = {
        served<protocol::JobFileArgs, job_file>(),
        served<protocol::PiecesMissingArgs, pieces_missing>(),
        served<protocol::PiecePutArgs, piece_put>()};
    return kOperations;
}

}  // namespace roll::api
