#include "daemon/core/decide/sizes.hpp"

#include <fmt/format.h>

#include "common/spec/job/node_sizes.hpp"
#include "common/spec/job/sweep.hpp"

namespace roll::core {
namespace {

constexpr std::int64_t kNodesMax = 100'000;
constexpr std::int64_t kSparesMax = 1000;
constexpr std::int64_t kTriesMax = 1'000'000'000;  // stands for unlimited retries
constexpr std::int64_t kPriorityMax = 1'000'000;
constexpr std::int64_t kSecondsMax = 3'200'000'000;  // about a century, in seconds
constexpr std::size_t kNameMax = 256;
constexpr std::size_t kPathMax = 4096;

Result<void> within(const char* key, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value >= least && value <= most) return {};
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{} is {}; allowed: {} to {}", key, value, least, most));
}

Result<void> check_shape(const spec::Resources& wanted) {
    ROLL_TRY_VOID(within("resources.nodes", wanted.nodes, 1, kNodesMax));
    ROLL_TRY_VOID(within("resources.slots_per_node", wanted.slots_per_node, 0, spec::kSlotsMax));
    ROLL_TRY_VOID(within("resources.gpus_per_node", wanted.gpus_per_node, 0, spec::kGpusMax));
    ROLL_TRY_VOID(within("resources.time", wanted.time.count(), 0, kSecondsMax));
    ROLL_TRY_VOID(within("resources.spares", wanted.spares, 0, kSparesMax));
    ROLL_TRY_VOID(within("resources.segment", wanted.segment, 0, kNodesMax));
    ROLL_TRY_VOID(within("resources.tasks_per_node", wanted.tasks_per_node, 0, spec::kSlotsMax));
    ROLL_TRY_VOID(within("resources.memory", wanted.memory, 0, spec::kMemoryMax));
    ROLL_TRY_VOID(within("resources.cpus", wanted.cpus, 0, spec::kSlotsMax));
    ROLL_TRY_VOID(within("resources.slots_per_rank", wanted.slots_per_rank, 1, spec::kSlotsMax));
    if (wanted.gpus_per_node == 0 && wanted.slots_per_node % wanted.slots_per_rank != 0)
        return fail(ErrorCode::InvalidArgument,
                    "resources: slots_per_rank must divide slots_per_node");
    if (wanted.ranks_per_node() < 1)
        return fail(ErrorCode::InvalidArgument,
                    "resources: a job needs at least one slot or GPU on each node");
    const bool part = wanted.gpu_percent >= 1 && wanted.gpu_percent < 100;
    if (!(part ? wanted.gpus_per_node == 1 : wanted.gpu_percent == 100))
        return fail(ErrorCode::InvalidArgument,
                    "resources: a fraction of a GPU is allowed only with one GPU per node");
    if (wanted.segment > 1 && wanted.nodes % wanted.segment != 0)
        return fail(ErrorCode::InvalidArgument, "resources: segment must divide nodes");
    return {};
}

Result<void> check_retry(const spec::Retry& retry) {
    ROLL_TRY_VOID(within("retry.infra", retry.infra, 0, kTriesMax));
    ROLL_TRY_VOID(within("retry.app", retry.app, 0, kTriesMax));
    ROLL_TRY_VOID(within("retry.timeout", retry.timeout, 0, kTriesMax));
    ROLL_TRY_VOID(within("retry.preempted", retry.preempted, 0, kTriesMax));
    ROLL_TRY_VOID(within("retry.no_progress", retry.no_progress, 0, kTriesMax));
    ROLL_TRY_VOID(within("retry.backoff", retry.backoff.count(), 0, kSecondsMax));
    return within("retry.backoff_max", retry.backoff_max.count(), 0, kSecondsMax);
}

Result<void> check_length(const char* key, const std::string& text, std::size_t most) {
    if (text.size() <= most) return {};
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{} has {} bytes; allowed: {}", key, text.size(), most));
}

}  // namespace

Result<void> check_sizes(const spec::JobSpec& spec) {
    for (int i = 0; i < spec.shapes(); ++i) ROLL_TRY_VOID(check_shape(spec.shape(i)));
    ROLL_TRY_VOID(check_retry(spec.retry));
    ROLL_TRY_VOID(within("priority", spec.priority, -kPriorityMax, kPriorityMax));
    if (spec.hang_after)
        ROLL_TRY_VOID(within("hang_after", spec.hang_after->count(), 0, kSecondsMax));
    ROLL_TRY_VOID(check_length("name", spec.name, kNameMax));
    ROLL_TRY_VOID(check_length("output", spec.output, kPathMax));
    if (spec.needs.size() > spec::kSecretsMax)
        return fail(ErrorCode::InvalidArgument, "a job may need 32 features at most");
    if (spec.secrets.size() > spec::kSecretsMax)
        return fail(ErrorCode::InvalidArgument, "a job may have 32 secrets at most");
    if (spec.array && (spec.array->limit < 0 || spec.array->index != -1))
        return fail(ErrorCode::InvalidArgument, "array: a limit cannot be negative");
    return {};
}

Result<void> check_copies(const spec::JobSpec& spec, std::size_t jobs) {
    constexpr std::size_t kBytesMax = 256u << 20;
    // Only the first trial of a sweep keeps the list of all trials.
    const auto trials = spec::Trials::of(spec.document.text());
    const std::size_t document = trials && trials->count() > 0
                                     ? trials->document(trials->count() - 1).size()
                                     : spec.document.size();
    const std::size_t each = document + spec.export_document.size();
    if (each * jobs <= kBytesMax) return {};
    return fail(
        ErrorCode::InvalidArgument,
        fmt::format("array: the job documents of {} tasks have {} bytes each, which is more "
                    "than 256 MiB in total",
                    jobs, each),
        "put a large script into a file, or make fewer tasks");
}

}  // namespace roll::core
