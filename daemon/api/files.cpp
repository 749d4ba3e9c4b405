// The operation that reads the files of jobs.
#include <array>

#include <fmt/format.h>

#include "common/protocol/file_operations.hpp"
#include "daemon/api/operations.hpp"

namespace roll::api {
namespace {

// A job may have printed secrets, so only its owner and the operator may read its files. The same
// rule applies to the values of its environment.
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

}  // namespace

std::span<const ServedOperation> file_operations() {
    static constexpr std::array kOperations = {served<protocol::JobFileArgs, job_file>()};
    return kOperations;
}

}  // namespace roll::api
