#include "daemon/api/operations.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "common/protocol/scope.hpp"

namespace roll::api {
namespace {

std::vector<ServedOperation> all_operations() {
    std::vector<ServedOperation> all;
    for (const auto group : {submit_operations(), job_operations(), shell_operations(),
                             view_operations(), node_operations(), allocation_operations(),
                             secret_operations(), token_operations(), file_operations()})
        all.insert(all.end(), group.begin(), group.end());
    return all;
}

}  // namespace

std::span<const ServedOperation> operations() {
    static const std::vector<ServedOperation> kAll = all_operations();
    return kAll;
}

Result<const ServedOperation*> find_for(const Caller& who, std::string_view name) {
    const auto all = operations();
    const auto found = std::ranges::find_if(
        all, [&](const ServedOperation& one) { return one.operation->name == name; });
    if (found == all.end())
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("rolld knows no operation {}", name.substr(0, 60)),
                    "rollctl and rolld may be of different versions; see `rollctl version`");
    if (found->operation->access == protocol::Access::Operate && who.role != Role::Operator)
        return fail(
            ErrorCode::Refused,
            fmt::format("{} is only for the user who owns this rolld, not for {}", name, who.user));
    if (found->operation->access > who.access)
        return fail(ErrorCode::Refused,
                    fmt::format("the token's scope is {}; {} needs a token of a higher scope",
                                protocol::scope_of_access(who.access), name),
                    "rollctl token create --scope operate");
    return &*found;
}

Result<void> owns(const Context& context, const Caller& who, const std::vector<JobId>& ids) {
    if (who.role == Role::Operator) return {};
    for (const JobId id : ids) {
        const core::Job& job = context.state.jobs.at(id);
        if (job.user == who.user) continue;
        return fail(ErrorCode::Refused,
                    fmt::format("job {} belongs to {}, not to {}", id.value, job.user, who.user),
                    "rollctl jobs -a @me");
    }
    return {};
}

Result<void> check_line(const char* what, const std::string& text) {
    constexpr std::size_t kBytesMax = 1000;
    const bool has_controls =
        std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; });
    if (text.size() <= kBytesMax && !has_controls) return {};
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{} {}; allowed: one line of at most {} bytes", what,
                            has_controls ? "has line breaks or other control characters"
                                         : fmt::format("has {} bytes", text.size()),
                            kBytesMax));
}

Result<void> needs_key(const Caller& who, const char* what, const char* command) {
    if (!who.by_token) return {};
    return fail(ErrorCode::Refused, fmt::format("a token cannot {}", what),
                fmt::format("run `{}` with your own key instead of a token", command));
}

}  // namespace roll::api
