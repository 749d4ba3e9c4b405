#include "common/spec/check/parse_policy.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/json.hpp"
#include "common/spec/check/problems.hpp"
#include "common/spec/schema/schema.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::spec {
namespace {

std::chrono::seconds duration(const Json& section, const char* key) {
    return parse_duration(section[key].get<std::string>()).value();
}

// Reports missing parents and cycles of parents. Each problem has the path of the account that
// names the parent.
void check_parents(const Policy& policy, std::vector<Problem>& problems) {
    for (const auto& [name, account] : policy.accounts) {
        if (account.parent.empty()) continue;
        const std::string path = fmt::format("accounts.{}.parent", name);
        if (!policy.accounts.contains(account.parent)) {
            problems.push_back(
                {path, fmt::format("is {}, which is not an account in this file; add the "
                                   "account or correct the name",
                                   account.parent)});
            continue;
        }
        std::string at = account.parent;
        for (std::size_t steps = 0; at != name && steps < policy.accounts.size(); ++steps) {
            const auto next = policy.accounts.find(at);
            if (next == policy.accounts.end()) break;
            at = next->second.parent;
        }
        if (at == name)
            problems.push_back({path, fmt::format("is {}, which is itself below {}: the parents "
                                                  "form a cycle; change one of them",
                                                  account.parent, name)});
    }
}

Policy read_policy(const Json& document) {
    Policy policy;
    const Json& scheduling = document["scheduling"];
    policy.backfill = scheduling["backfill"];
    policy.starve_after = duration(scheduling, "starve_after");
    if (document.contains("fair_share"))
        policy.half_life =
            std::max(duration(document["fair_share"], "half_life"), std::chrono::seconds(1));
    if (document.contains("preemption")) {
        policy.preempt = true;
        policy.min_run = duration(document["preemption"], "min_run");
    }
    const Json& bad_nodes = document["bad_nodes"];
    policy.bad_nodes = {bad_nodes["failures"], duration(bad_nodes, "within"),
                        duration(bad_nodes, "for")};
    policy.gang_slurm_variables = document["gang"]["slurm_variables"];
    for (const auto& [name, json] : document["accounts"].items())
        policy.accounts[name] = read_account(json);
    for (const auto& [name, json] : document["users"].items())
        policy.users[name] = {json.value("share", 1), read_quota(json)};
    return policy;
}

}  // namespace

ParsedPolicy parse_policy(std::string_view json_document, const std::string& base_directory) {
    ParsedPolicy parsed;
    auto json = parse_json(json_document);
    if (!json) {
        parsed.problems.push_back({"", json.error().message});
        return parsed;
    }
    if (json->is_null()) *json = Json::object();
    const OrderedJson& schema = policy_schema();
    parsed.problems = check(schema, *json);
    if (!parsed.problems.empty()) return parsed;
    fill_defaults(schema, *json);
    make_paths_absolute(schema, *json, base_directory);
    parsed.policy = read_policy(*json);
    check_parents(parsed.policy, parsed.problems);
    parsed.http = read_http(json->value("http", Json::object()));
    append(parsed.problems, check_http(parsed.http));
    return parsed;
}

std::vector<Problem> check_http(const HttpConfig& config) {
    const auto address = parse_listen(config.listen);
    if (!address) return {{"http.listen", address.error().message}};
    if (address->is_loopback || config.insecure || !config.certificate.empty()) return {};
    return {{"http.listen",
             fmt::format("is {}: other machines could read the tokens, because there is no "
                         "encryption; set http.tls, listen on 127.0.0.1 behind an SSH tunnel, or "
                         "set `insecure: true`",
                         config.listen)}};
}

}  // namespace roll::spec
