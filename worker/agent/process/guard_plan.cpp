#include "worker/agent/process/guard_plan.hpp"

#include "common/json.hpp"

namespace roll::agent {
namespace {

std::string line_of(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Program> read_program(const Json& json) {
    JsonReader r(json, "program");
    Program program;
    program.arguments = r.get<std::vector<std::string>>("arguments");
    program.environment = r.get<std::vector<std::string>>("environment");
    program.directory = r.get<std::string>("directory");
    program.log = r.get<std::string>("log");
    program.error_log = r.get<std::string>("error_log");
    program.link = r.get<std::string>("link");
    program.cpus = r.get<std::vector<int>>("cpus");
    program.enter = r.get<std::vector<std::string>>("enter");
    ROLL_TRY_VOID(r.finish());
    return program;
}

Json put_program(const Program& program) {
    return {{"arguments", program.arguments}, {"environment", program.environment},
            {"directory", program.directory}, {"log", program.log},
            {"error_log", program.error_log}, {"link", program.link},
            {"cpus", program.cpus},           {"enter", program.enter}};
}

Result<NodeCheck> read_check(const Json& json) {
    JsonReader r(json, "check");
    NodeCheck check;
    check.timeout_seconds = r.get<int>("timeout_seconds");
    check.site = r.get<bool>("site");
    const Json& program = r.raw("program");
    ROLL_TRY_VOID(r.finish());
    ROLL_TRY(check.program, read_program(program));
    return check;
}

Json put_gang(const Gang& gang) {
    return {{"first", gang.first},     {"meeting", gang.meeting},
            {"address", gang.address}, {"host_file", gang.host_file},
            {"hosts", gang.hosts},     {"patience_seconds", gang.patience_seconds}};
}

Result<Gang> read_gang(const Json& json) {
    JsonReader r(json, "gang");
    Gang gang;
    gang.first = r.get<bool>("first");
    gang.meeting = r.get<std::string>("meeting");
    gang.address = r.get<std::string>("address");
    gang.host_file = r.get<std::string>("host_file");
    gang.hosts = r.get<std::string>("hosts");
    gang.patience_seconds = r.get<int>("patience_seconds");
    ROLL_TRY_VOID(r.finish());
    return gang;
}

}  // namespace

Json json_of(const std::vector<Program>& programs) {
    Json list = Json::array();
    for (const Program& program : programs) list.push_back(put_program(program));
    return list;
}

Result<std::vector<Program>> read_programs(const Json& list) {
    std::vector<Program> programs;
    for (const Json& item : list) {
        ROLL_TRY(Program program, read_program(item));
        programs.push_back(std::move(program));
    }
    return programs;
}

std::string encode(const GuardPlan& plan) {
    Json checks = Json::array();
    for (const NodeCheck& check : plan.checks) {
        checks.push_back({{"program", put_program(check.program)},
                          {"timeout_seconds", check.timeout_seconds},
                          {"site", check.site}});
    }
    Json gpus = Json::array();
    for (const GpuRoom& gpu : plan.gpus)
        gpus.push_back({{"name", gpu.name}, {"most_used_bytes", gpu.most_used_bytes}});
    return line_of({{"directories", plan.directories},
                    {"launch_file", plan.launch_file},
                    {"launch", plan.launch},
                    {"own_programs", plan.own_programs},
                    {"checks", checks},
                    {"programs", json_of(plan.programs)},
                    {"after", json_of(plan.after)},
                    {"log_bytes_max", plan.log_bytes_max},
                    {"patterns", plan.patterns},
                    {"gpus", gpus},
                    {"gpu_wait_seconds", plan.gpu_wait_seconds},
                    {"gang", plan.gang ? put_gang(*plan.gang) : Json()},
                    {"cgroup", plan.cgroup},
                    {"memory", plan.memory.bytes},
                    {"memory_cgroup", plan.memory.cgroup},
                    {"cpu_cgroup", plan.cpu_cgroup}});
}

Result<GuardPlan> decode_guard_plan(std::string_view line) {
    ROLL_TRY(const Json json, parse_json(line));
    JsonReader r(json, "plan");
    GuardPlan plan;
    plan.directories = r.get<std::vector<std::string>>("directories");
    plan.launch_file = r.get<std::string>("launch_file");
    plan.launch = r.get<std::string>("launch");
    plan.own_programs = r.get<bool>("own_programs");
    plan.log_bytes_max = r.get<std::int64_t>("log_bytes_max");
    plan.patterns = r.get<std::vector<std::string>>("patterns");
    plan.gpu_wait_seconds = r.get<int>("gpu_wait_seconds");
    plan.cgroup = r.get<std::string>("cgroup");
    plan.memory.bytes = r.get<std::int64_t>("memory");
    plan.memory.cgroup = r.get<std::string>("memory_cgroup");
    plan.cpu_cgroup = r.get<std::string>("cpu_cgroup");
    const Json& checks = r.raw("checks");
    const Json& programs = r.raw("programs");
    const Json& after = r.raw("after");
    const Json& gpus = r.raw("gpus");
    const Json& gang = r.raw("gang");
    ROLL_TRY_VOID(r.finish());
    if (!gang.is_null()) {
        ROLL_TRY(plan.gang, read_gang(gang));
    }
    for (const Json& item : checks) {
        ROLL_TRY(NodeCheck check, read_check(item));
        plan.checks.push_back(std::move(check));
    }
    ROLL_TRY(plan.programs, read_programs(programs));
    ROLL_TRY(plan.after, read_programs(after));
    for (const Json& item : gpus) {
        JsonReader gpu(item, "gpu");
        plan.gpus.push_back(
            {gpu.get<std::string>("name"), gpu.get<std::int64_t>("most_used_bytes")});
        ROLL_TRY_VOID(gpu.finish());
    }
    return plan;
}

std::string encode(const Verdict& verdict) {
    return line_of({{"outcome", name_of(verdict.outcome)},
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
