#include "common/protocol/operations.hpp"

#include <algorithm>
#include <array>

#include "common/protocol/allocation_operations.hpp"
#include "common/protocol/cluster_operations.hpp"
#include "common/protocol/file_operations.hpp"
#include "common/protocol/job_operations.hpp"
#include "common/protocol/shell_operations.hpp"
#include "common/protocol/submit_operations.hpp"
#include "common/protocol/token_operations.hpp"
#include "common/protocol/view_operations.hpp"

namespace roll::protocol {
namespace {

struct JsonReply {};  // stands for a reply that has no struct
template <class V>
void fields(V&, JsonReply&) {}

template <class Args, class Reply = JsonReply>
constexpr OperationInfo info() {
    return {&Args::kOperation, fields_of<Args>, fields_of<Reply>, [](const Json& json) {
                return read_arguments<Args>(json, true).map([](const Args&) {});
            }};
}

constexpr std::array kOperations = {
    info<SubmitArgs, SubmitReply>(),
    info<ForecastArgs>(),
    info<CancelArgs, CancelReply>(),
    info<CloseArgs, ChangedReply>(),
    info<HoldArgs, ChangedReply>(),
    info<ReleaseArgs, ChangedReply>(),
    info<RequeueArgs, ChangedReply>(),
    info<UpdateArgs, ChangedReply>(),
    info<ProgressArgs, ProgressReply>(),
    info<CheckpointArgs, CheckpointReply>(),
    info<TellArgs, TellReply>(),
    info<ShellOpenArgs, ShellOpenReply>(),
    info<ShellWriteArgs, ShellWriteReply>(),
    info<ShellReadArgs>(),
    info<JobsArgs>(),
    info<ShowArgs>(),
    info<EventsArgs>(),
    info<NodesArgs>(),
    info<TotalsArgs>(),
    info<UsageArgs>(),
    info<ReportArgs>(),
    info<VersionArgs, VersionReply>(),
    info<ShutdownArgs, ShutdownReply>(),
    info<DrainArgs, NodeReply>(),
    info<UndrainArgs, NodeReply>(),
    info<AllocListArgs>(),
    info<AllocAddArgs, QueueReply>(),
    info<AllocPauseArgs, QueueReply>(),
    info<AllocResumeArgs, QueueReply>(),
    info<AllocRemoveArgs, QueueReply>(),
    info<AllocCloseArgs, AllocationReply>(),
    info<AllocCancelArgs, AllocationReply>(),
    info<AllocDryRunArgs>(),
    info<SecretSetArgs, SecretReply>(),
    info<SecretRemoveArgs, SecretReply>(),
    info<SecretListArgs>(),
    info<TokenCreateArgs, TokenReply>(),
    info<TokenListArgs>(),
    info<TokenRevokeArgs, TokenRevokeReply>(),
    info<WithTokenArgs>(),
    info<WhoamiArgs, WhoamiReply>(),
    info<JobFileArgs, JobFileReply>(),
    info<PiecesMissingArgs, PiecesMissingReply>(),
    info<PiecePutArgs, PiecePutReply>(),
};

}  // namespace

std::span<const OperationInfo> operations() { return kOperations; }

const OperationInfo* find_operation(std::string_view name) {
    const auto found = std::ranges::find_if(
        kOperations, [&](const OperationInfo& one) { return one.operation->name == name; });
    return found == kOperations.end() ? nullptr : &*found;
}

}  // namespace roll::protocol
