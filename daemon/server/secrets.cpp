// Users' secrets: the owner of a secret sets, lists and removes it, and a start order contains the
// values of the secrets that its job names. State has only the names; values are sent only in start
// orders.
#include <algorithm>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "daemon/server/server.hpp"

namespace roll::server {

// Sets or removes a secret. Changes the store on disk before State, so that every name in State has
// a value even after a crash.
Result<void> Server::claim_secret(const Client& client, const protocol::Request& request) {
    JsonReader r(request.args, request.op);
    core::SecretName name;
    name.name = r.get<std::string>("name");
    name.user = acting_user(client.who, r.get_or<std::string>("user", ""));
    const bool sets = request.op == "secret_set";
    const Json& value = r.raw("value");
    ROLL_TRY_VOID(r.finish_lenient());
    const bool replaces = secrets_.value(name).has_value();
    if (sets) {
        if (!value.is_string())
            return fail(ErrorCode::InvalidArgument, "secret_set: needs a text field `value`");
        ROLL_TRY_VOID(secrets_.set(name, value.get<std::string>(), wall_clock_now()));
    } else if (request.op == "secret_remove") {
        ROLL_TRY_VOID(secrets_.remove(name));
    } else {
        return fail(ErrorCode::InvalidArgument, "rolld knows no operation " + request.op);
    }
    const std::size_t input = add(core::SetSecrets{secrets_.names()});
    asked_.push_back({{input}, client.peer, request.id, [name, sets, replaces](bool) {
                          return Json{{"schema", "roll.secret/1"},
                                      {"user", name.user},
                                      {"name", name.name},
                                      {"set", sets},
                                      {"replaced", sets && replaces}};
                      }});
    return {};
}

// Lists all secrets for an operator, and only the user's own secrets for another user.
Result<Json> Server::list_secrets(const Client& client, const protocol::Request& request) const {
    JsonReader r(request.args, request.op);
    ROLL_TRY_VOID(r.finish_lenient());
    std::map<core::SecretName, Json> jobs;
    for (const JobId id : engine_.state().index.open) {
        const core::Job& job = engine_.state().jobs.at(id);
        for (const std::string& name : job.spec.secrets) jobs[{job.user, name}].push_back(id.value);
    }
    Json list = Json::array();
    for (const core::SecretName& name : secrets_.names()) {
        if (client.who.role != Role::Operator && name.user != client.who.user) continue;
        const auto used = jobs.find(name);
        list.push_back({{"user", name.user},
                        {"name", name.name},
                        {"set_at", to_iso8601(secrets_.set_at(name))},
                        {"jobs", used == jobs.end() ? Json::array() : used->second}});
    }
    return Json{{"schema", "roll.secrets/1"}, {"secrets", std::move(list)}};
}

namespace {

// Returns why the worker's release is too old to run the job; empty if it is not.
std::string lacks(const protocol::Heartbeat& worker, const spec::JobSpec& spec) {
    const auto older = [&](const std::string& what) {
        return fmt::format("the roll-worker of {} is of an older release, which {}", worker.node,
                           what);
    };
    if (!spec.secrets.empty() && worker.version < protocol::kSecretsVersion)
        return older("cannot be given secrets");
    for (const std::string& feature : spec.needs) {
        if (std::ranges::find(worker.features, feature) == worker.features.end())
            return older(
                fmt::format("lacks the feature {} that the job needs; install this "
                            "release on the node",
                            feature));
    }
    return "";
}

}  // namespace

// Adds the values of secrets to the worker's start orders. An order is not sent to a worker that is
// too old for the job; its attempt then ends as if the worker had refused it.
void Server::fill_secrets(const Session& session, WorkerId worker, protocol::Answer& answer) {
    std::erase_if(answer.start, [&](protocol::StartOrder& order) {
        const core::Job& job = engine_.state().jobs.at(order.attempt.job);
        for (const std::string& name : job.spec.secrets) {
            const auto value = secrets_.value({job.user, name});
            if (value)
                order.secrets[name] = *value;
            else
                order.refused = fmt::format("user {} no longer has a secret {}", job.user, name);
        }
        const std::string why = lacks(session.last, job.spec);
        if (why.empty()) return false;
        spdlog::warn("job {}: {}", order.attempt.job.value, why);
        add_later(core::MemberExited{worker, order.attempt, core::Outcome::Infra, 1, why, {}});
        return true;
    });
}

}  // namespace roll::server
