// The operations on users' secrets.
#include <array>
#include <map>

#include "common/protocol/cluster_operations.hpp"
#include "daemon/api/operations.hpp"

namespace roll::api {
namespace {

// The store on disk changes before State. Every name in State therefore has a value, even after a
// crash.
Plan know_secrets(const Context& context, const protocol::SecretReply& reply, const char* schema) {
    RunTurn plan;
    plan.inputs.emplace_back(core::SetSecrets{context.secrets.names()});
    plan.reply = [reply, schema](const core::State&, bool) {
        return protocol::reply_json(reply, schema);
    };
    return plan;
}

Result<Plan> set(const Context& context, const Caller& who, const protocol::SecretSetArgs& args) {
    const core::SecretName name{.user = acting_user(who, args.user), .name = args.name};
    const bool replaces = context.secrets.value(name).has_value();
    ROLL_TRY_VOID(context.secrets.set(name, args.value, context.now));
    return know_secrets(context, {name.user, name.name, true, replaces},
                        protocol::SecretSetArgs::kOperation.reply);
}

Result<Plan> remove_secret(const Context& context, const Caller& who,
                           const protocol::SecretRemoveArgs& args) {
    const core::SecretName name{.user = acting_user(who, args.user), .name = args.name};
    ROLL_TRY_VOID(context.secrets.remove(name));
    return know_secrets(context, {name.user, name.name, false, false},
                        protocol::SecretRemoveArgs::kOperation.reply);
}

// Lists all secrets for an operator, and only the user's own secrets for another user.
Result<Plan> list_secrets(const Context& context, const Caller& who,
                          const protocol::SecretListArgs&) {
    std::map<core::SecretName, Json> jobs;
    for (const JobId id : context.state.index.open) {
        const core::Job& job = context.state.jobs.at(id);
        for (const std::string& name : job.spec.secrets) jobs[{job.user, name}].push_back(id.value);
    }
    Json list = Json::array();
    for (const core::SecretName& name : context.secrets.names()) {
        if (who.role != Role::Operator && name.user != who.user) continue;
        const auto used = jobs.find(name);
        list.push_back({{"user", name.user},
                        {"name", name.name},
                        {"set_at", to_iso8601(context.secrets.set_at(name))},
                        {"jobs", used == jobs.end() ? Json::array() : used->second}});
    }
    return ReplyNow{
        Json{{"schema", protocol::SecretListArgs::kOperation.reply}, {"secrets", std::move(list)}}};
}

}  // namespace

std::span<const ServedOperation> secret_operations() {
    static constexpr std::array kOperations = {served<protocol::SecretSetArgs, set>(),
                                               served<protocol::SecretRemoveArgs, remove_secret>(),
                                               served<protocol::SecretListArgs, list_secrets>()};
    return kOperations;
}

}  // namespace roll::api
