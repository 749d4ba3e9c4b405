#include "worker/agent/process/guard_plan.hpp"

#include "common/json.hpp"

namespace roll::agent {

// Each list of members serves to write and to read the type. A program may come from a record of
// another version, so a member may be missing.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Program, arguments, environment, directory, log,
                                                cpus, error_log, link, enter)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeCheck, program, timeout_seconds, site)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Gang, first, meeting, address, host_file, hosts,
                                   patience_seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuRoom, name, most_used_bytes)
// All members except `gang` and `memory`. After an upgrade of the package, an old roll-worker
// starts new guards, so the form of a plan stays as it was.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(GuardPlan, directories, launch_file, launch,
                                                own_programs, checks, programs, log_bytes_max,
                                                patterns, gpus, gpu_wait_seconds, after, cgroup,
                                                cpu_cgroup)

Json json_of(const std::vector<Program>& programs) { return programs; }

Result<std::vector<Program>> read_programs(const Json& list) {
    if (list.is_null()) return std::vector<Program>();
    try {
        return list.get<std::vector<Program>>();
    } catch (const Json::exception& error) {
        return fail(ErrorCode::Corrupt, std::string("programs: ") + error.what());
    }
}

std::string encode(const GuardPlan& plan) {
    Json json = plan;
    json["gang"] = plan.gang ? Json(*plan.gang) : Json();
    json["memory"] = plan.memory.bytes;
    json["memory_cgroup"] = plan.memory.cgroup;
    return dump(json);
}

Result<GuardPlan> decode_guard_plan(std::string_view line) {
    ROLL_TRY(const Json json, parse_json(line));
    try {
        auto plan = json.get<GuardPlan>();
        if (json.contains("gang") && !json["gang"].is_null()) plan.gang = json["gang"].get<Gang>();
        plan.memory = {json.value("memory", std::int64_t{0}),
                       json.value("memory_cgroup", std::string())};
        return plan;
    } catch (const Json::exception& error) {
        return fail(ErrorCode::Corrupt, std::string("plan: ") + error.what());
    }
}

std::string encode(const Verdict& verdict) {
    return dump({{"outcome", name_of(verdict.outcome)},
                 {"exit_code", verdict.exit_code},
                 {"reason", verdict.reason}});
}

Result<Verdict> decode_verdict(std::string_view line) {
    ROLL_TRY(const Json json, parse_json(line));
    JsonReader r(json, "verdict");
    Verdict verdict;
    const auto outcome = r.get<std::string>("outcome");
    verdict.exit_code = r.get<int>("exit_code");
    verdict.reason = r.get<std::string>("reason");
    ROLL_TRY_VOID(r.finish());
    const auto known = find_name<Outcome>(kOutcomes, outcome);
    if (!known) return fail(ErrorCode::Corrupt, "unknown outcome " + outcome.substr(0, 40));
    verdict.outcome = *known;
    return verdict;
}

}  // namespace roll::agent
