#include "common/protocol/worker.hpp"

#include <algorithm>
#include <array>

#include "common/enum_name.hpp"
#include "common/json_text.hpp"
#include "common/number.hpp"
#include "common/protocol/fields.hpp"
#include "common/spec/job/node_sizes.hpp"

namespace roll::protocol {

// the names are in the order of Phase
constexpr std::array kPhases = {"starting", "running", "stopping", "ended"};

static JsonText text_of(const AttemptKey& key) {
    return JsonText().add("job", key.job.value).add("token", to_string(key.token));
}

// Returns a list with text_of(item) for each item.
template <class T>
static std::vector<JsonText> texts_of(const std::vector<T>& items) {
    std::vector<JsonText> texts;
    texts.reserve(items.size());
    for (const T& item : items) texts.push_back(text_of(item));
    return texts;
}

static JsonText text_of(const Usage& usage) {
    return JsonText()
        .add("cpu_ms", usage.cpu_ms)
        .add("memory_peak", usage.memory_peak)
        .add("wall_ms", usage.wall_ms)
        .add("gpu_ms", usage.gpu_ms)
        .add("disk_read", usage.disk_read)
        .add("disk_written", usage.disk_written);
}

static JsonText text_of(const RunningAttempt& running) {
    JsonText text = JsonText()
                        .add("attempt", text_of(running.attempt))
                        .add("phase", name_in(kPhases, running.phase));
    if (running.phase == Phase::Ended) {
        text.add("outcome", name_of(running.outcome));
        text.add("exit_code", running.exit_code);
        text.add("reason", running.reason);
        if (!running.matched.empty()) text.add("matched", running.matched);
        if (running.usage != Usage{}) text.add("usage", text_of(running.usage));
    }
    if (!running.checkpoints.empty()) text.add("checkpoints", to_json_list(running.checkpoints));
    if (!running.exported.empty()) text.add("exported", running.exported);
    if (!running.exports.empty()) text.add("exports", to_json_list(running.exports));
    if (!running.answers.empty()) text.add("answers", to_json_list(running.answers));
    if (!running.progress.empty()) text.add("progress", running.progress);
    return text;
}

// Sets the phase, and the outcome of an attempt that has ended.
static Result<void> set_phase(const std::string& phase, const std::string& outcome,
                              const std::string& path, RunningAttempt& running) {
    const auto known = find_name<Phase>(kPhases, phase);
    if (!known) return fail(ErrorCode::Corrupt, path + ": unknown phase " + phase.substr(0, 40));
    running.phase = *known;
    if (running.phase != Phase::Ended) return {};
    const auto ended = find_name<Outcome>(kOutcomes, outcome);
    if (!ended)
        return fail(ErrorCode::Corrupt, path + ": unknown outcome " + outcome.substr(0, 40));
    running.outcome = *ended;
    return {};
}

static Result<Usage> read_usage(const Json& json, const std::string& path) {
    // Maximum value of each time: about a thousand years. Sums over the workers of an attempt then
    // do not overflow.
    constexpr std::int64_t kMillisMax = std::int64_t{1} << 45;
    JsonReader r(json, path);
    Usage usage;
    usage.cpu_ms = r.get<std::int64_t>("cpu_ms");
    usage.memory_peak = r.get<std::int64_t>("memory_peak");
    usage.wall_ms = r.get<std::int64_t>("wall_ms");
    usage.gpu_ms = r.get<std::int64_t>("gpu_ms");
    usage.disk_read = r.get_or("disk_read", std::int64_t{0});
    usage.disk_written = r.get_or("disk_written", std::int64_t{0});
    ROLL_TRY_VOID(r.finish_lenient());
    if (lowest(usage) < 0 || std::max({usage.cpu_ms, usage.wall_ms, usage.gpu_ms}) > kMillisMax ||
        usage.memory_peak > spec::kMemoryMax ||
        std::max(usage.disk_read, usage.disk_written) > kDiskBytesMax)
        return fail(ErrorCode::Corrupt, path + ": a number is too large or negative");
    return usage;
}

static Result<RunningAttempt> read_running(const Json& json, const std::string& path) {
    JsonReader r(json, path);
    RunningAttempt running;
    const auto phase = r.get<std::string>("phase");
    const auto outcome = r.get_or("outcome", std::string{});
    running.exit_code = r.get_or("exit_code", 0);
    running.reason = r.get_or("reason", std::string{});
    running.matched = r.get_or("matched", std::vector<int>{});
    running.exported = r.get_or("exported", std::string{});
    running.progress = r.get_or("progress", std::string{});
    const Json& attempt = r.raw("attempt");
    const Json& checkpoints = r.raw("checkpoints");
    const Json& exports = r.raw("exports");
    const Json& answers = r.raw("answers");
    const Json& usage = r.raw("usage");
    ROLL_TRY_VOID(r.finish_lenient());
    if (!usage.is_null()) {
        ROLL_TRY(running.usage, read_usage(usage, path + ".usage"));
    }
    ROLL_TRY(running.attempt, read_attempt_key(attempt, path + ".attempt"));
    if (!checkpoints.is_null())
        ROLL_TRY_VOID(read_list(checkpoints, path + ".checkpoints", running.checkpoints,
                                &read_written_checkpoint));
    if (!exports.is_null())
        ROLL_TRY_VOID(read_list(exports, path + ".exports", running.exports, &read_written_export));
    if (!answers.is_null())
        ROLL_TRY_VOID(read_list(answers, path + ".answers", running.answers, &read_request_answer));
    ROLL_TRY_VOID(set_phase(phase, outcome, path, running));
    return running;
}

static JsonText text_of(const StartOrder& order) {
    JsonText text;
    text.add("attempt", text_of(order.attempt))
        .add("kind", order.kind)
        .add("document", order.document)
        .add("output", order.output)
        .add("node_rank", order.node_rank)
        .add("nodes", order.nodes)
        .add("ranks_per_node", order.ranks_per_node)
        .add("slots", order.slots)
        .add("gpus", order.gpus)
        .add("gpu_percent", order.gpu_percent)
        .add("nonce", order.nonce)
        .add("checkpoints", to_json_list(order.checkpoints))
        .add("time_limit_seconds", order.time_limit_seconds)
        .add("hang_after_seconds", order.hang_after_seconds);
    if (!order.secrets.empty()) text.add("secrets", Json(order.secrets));
    if (order.memory > 0) text.add("memory", order.memory);
    if (order.cpus > 0) text.add("cpus", order.cpus);
    if (order.tasks_per_node > 0) text.add("tasks_per_node", order.tasks_per_node);
    if (!order.hosts.empty()) text.add("hosts", order.hosts);
    if (order.slurm_variables) text.add("slurm_variables", true);
    if (order.stop_step > 0) text.add("stop_step", order.stop_step);
    if (order.adds_cpu_times) text.add("adds_cpu_times", true);
    if (order.files) text.add("files", true);
    if (!order.refused.empty()) text.add("refused", order.refused);
    return text;
}

// Reads the secrets of a start order. Error messages must not contain the secrets' values.
static Result<std::map<std::string, std::string>> read_secrets(const Json& json,
                                                               const std::string& path) {
    std::map<std::string, std::string> secrets;
    if (json.is_null()) return secrets;
    if (!json.is_object()) return fail(ErrorCode::Corrupt, path + " is not an object");
    for (const auto& [name, value] : json.items()) {
        if (!value.is_string())
            return fail(ErrorCode::Corrupt, path + "." + name + " is not a string");
        secrets[name] = value.get<std::string>();
    }
    return secrets;
}

static Result<StartOrder> read_start(const Json& json, const std::string& path) {
    JsonReader r(json, path);
    StartOrder order;
    order.kind = r.get<std::string>("kind");
    order.document = r.get<std::string>("document");
    order.output = r.get<std::string>("output");
    order.node_rank = r.get<int>("node_rank");
    order.nodes = r.get<int>("nodes");
    order.ranks_per_node = r.get<int>("ranks_per_node");
    order.slots = r.get<std::vector<int>>("slots");
    order.gpus = r.get<std::vector<int>>("gpus");
    // An older rolld does not send this field.
    order.gpu_percent = r.get_or("gpu_percent", order.gpu_percent);
    order.nonce = r.get<std::string>("nonce");
    order.time_limit_seconds = r.get_or<std::int64_t>("time_limit_seconds", 0);
    order.hang_after_seconds = r.get_or<std::int64_t>("hang_after_seconds", 0);
    order.memory = r.get_or<std::int64_t>("memory", 0);
    order.cpus = r.get_or("cpus", 0);
    order.tasks_per_node = r.get_or("tasks_per_node", 0);
    order.hosts = r.get_or("hosts", std::vector<std::string>{});
    order.slurm_variables = r.get_or("slurm_variables", false);
    order.stop_step = r.get_or<std::int64_t>("stop_step", 0);
    order.adds_cpu_times = r.get_or("adds_cpu_times", false);
    order.files = r.get_or("files", false);
    order.refused = r.get_or("refused", std::string{});
    const Json& attempt = r.raw("attempt");
    const Json& checkpoints = r.raw("checkpoints");
    const Json& secrets = r.raw("secrets");
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(order.secrets, read_secrets(secrets, path + ".secrets"));
    ROLL_TRY(order.attempt, read_attempt_key(attempt, path + ".attempt"));
    ROLL_TRY_VOID(
        read_list(checkpoints, path + ".checkpoints", order.checkpoints, &read_written_checkpoint));
    return order;
}

static JsonText text_of(const StopOrder& order) {
    return JsonText()
        .add("attempt", text_of(order.attempt))
        .add("reason", order.reason)
        .add("checkpoint", order.checkpoint)
        .add("grace_seconds", order.grace_seconds);
}

static Result<StopOrder> read_stop(const Json& json, const std::string& path) {
    JsonReader r(json, path);
    StopOrder order;
    order.reason = r.get<std::string>("reason");
    order.checkpoint = r.get_or("checkpoint", false);
    order.grace_seconds = r.get_or<std::int64_t>("grace_seconds", 0);
    const Json& attempt = r.raw("attempt");
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(order.attempt, read_attempt_key(attempt, path + ".attempt"));
    return order;
}

static JsonText text_of(const SaveOrder& order) {
    return JsonText().add("attempt", text_of(order.attempt)).add("asked", order.asked);
}

static Result<SaveOrder> read_save(const Json& json, const std::string& path) {
    JsonReader r(json, path);
    SaveOrder order;
    order.asked = r.get<std::uint64_t>("asked");
    const Json& attempt = r.raw("attempt");
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(order.attempt, read_attempt_key(attempt, path + ".attempt"));
    return order;
}

static JsonText text_of(const TellOrder& order) {
    return JsonText()
        .add("attempt", text_of(order.attempt))
        .add("number", order.request.number)
        .add("what", name_of(order.request.kind))
        .add("value", order.request.value);
}

// Reads the list of requests. Leaves out requests of a kind that only newer releases know.
static Result<void> read_tells(const Json& json, std::vector<TellOrder>& orders) {
    if (!json.is_array()) return fail(ErrorCode::Corrupt, "answer.tell is not a list");
    for (const Json& item : json) {
        JsonReader r(item, "answer.tell");
        TellOrder order;
        const Json& attempt = r.raw("attempt");
        ROLL_TRY(const auto request, read_training_request(r));
        if (!request) continue;
        order.request = *request;
        ROLL_TRY(order.attempt, read_attempt_key(attempt, "answer.tell.attempt"));
        orders.push_back(order);
    }
    return {};
}

static JsonText text_of(const Recorded& recorded) {
    JsonText text = JsonText()
                        .add("attempt", text_of(recorded.attempt))
                        .add("steps", recorded.steps)
                        .add("exported", recorded.exported);
    if (recorded.export_step > 0) text.add("export_step", recorded.export_step);
    if (recorded.answered > 0) text.add("answered", recorded.answered);
    return text;
}

static Result<Recorded> read_recorded(const Json& json, const std::string& path) {
    JsonReader r(json, path);
    Recorded recorded;
    recorded.steps = r.get<std::vector<std::int64_t>>("steps");
    recorded.exported = r.get_or("exported", false);
    recorded.export_step = r.get_or<std::int64_t>("export_step", 0);
    recorded.answered = r.get_or<std::uint64_t>("answered", 0);
    const Json& attempt = r.raw("attempt");
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(recorded.attempt, read_attempt_key(attempt, path + ".attempt"));
    return recorded;
}

static JsonText text_of(const PilotNote& pilot) {
    return JsonText()
        .add("key", pilot.key)
        .add("slurm_job", pilot.slurm_job)
        .add("ends_at", pilot.ends_at);
}

static Result<PilotNote> read_pilot(const Json& json) {
    JsonReader r(json, "heartbeat.pilot");
    PilotNote pilot;
    pilot.key = r.get<std::string>("key");
    pilot.slurm_job = r.get<std::string>("slurm_job");
    pilot.ends_at = r.get_or<std::int64_t>("ends_at", 0);
    ROLL_TRY_VOID(r.finish_lenient());
    constexpr std::int64_t kEndsMax = 1LL << 40;
    if (pilot.ends_at < 0 || pilot.ends_at > kEndsMax)
        return fail(ErrorCode::Corrupt, "heartbeat.pilot: ends_at is not a valid time");
    return pilot;
}

std::string encode(const Heartbeat& heartbeat) {
    JsonText text;
    text.add("v", heartbeat.version)
        .add("session", heartbeat.session)
        .add("node", heartbeat.node)
        .add("generation", heartbeat.generation)
        .add("slots", heartbeat.slots)
        .add("gpus", heartbeat.gpus)
        .add("sequence", heartbeat.sequence)
        .add("bound_below_lease", heartbeat.bound_below_lease)
        .add("heard_recently", heartbeat.heard_recently)
        .add("draining", heartbeat.draining)
        .add("beat_ms", heartbeat.beat_ms)
        .add("running", texts_of(heartbeat.running));
    if (!heartbeat.segment.empty()) text.add("segment", heartbeat.segment);
    if (!heartbeat.gpu_numa.empty()) text.add("gpu_numa", heartbeat.gpu_numa);
    if (heartbeat.memory > 0) text.add("memory", heartbeat.memory);
    if (heartbeat.cpus > 0) text.add("cpus", heartbeat.cpus);
    if (!heartbeat.limits.empty()) text.add("limits", heartbeat.limits);
    if (!heartbeat.wall.empty()) text.add("wall", heartbeat.wall);
    if (!heartbeat.home.empty()) text.add("home", heartbeat.home);
    if (!heartbeat.process.empty()) text.add("process", heartbeat.process);
    if (!heartbeat.features.empty()) text.add("features", heartbeat.features);
    if (heartbeat.pilot) text.add("pilot", text_of(*heartbeat.pilot));
    return text.text();
}

Result<Heartbeat> decode_heartbeat(std::string_view frame) {
    ROLL_TRY(const Json json, parse_frame(frame, "heartbeat"));
    JsonReader r(json, "heartbeat");
    Heartbeat heartbeat;
    heartbeat.version = r.get<int>("v");
    heartbeat.session = r.get<std::string>("session");
    heartbeat.node = r.get<std::string>("node");
    heartbeat.generation = r.get_or<std::uint64_t>("generation", 0);
    heartbeat.slots = r.get<int>("slots");
    heartbeat.gpus = r.get<int>("gpus");
    heartbeat.sequence = r.get<std::uint64_t>("sequence");
    heartbeat.bound_below_lease = r.get<bool>("bound_below_lease");
    heartbeat.heard_recently = r.get<bool>("heard_recently");
    heartbeat.draining = r.get<bool>("draining");
    // An older worker does not send this field.
    heartbeat.beat_ms = r.get_or("beat_ms", heartbeat.beat_ms);
    heartbeat.segment = r.get_or("segment", std::string{});
    heartbeat.gpu_numa = r.get_or("gpu_numa", std::vector<int>{});
    heartbeat.memory = r.get_or<std::int64_t>("memory", 0);
    heartbeat.cpus = r.get_or("cpus", 0);
    heartbeat.limits = r.get_or("limits", std::string{});
    heartbeat.wall = r.get_or("wall", std::string{});
    heartbeat.home = r.get_or("home", std::string{});
    heartbeat.process = r.get_or("process", std::string{});
    heartbeat.features = r.get_or("features", std::vector<std::string>{});
    const Json& pilot = r.raw("pilot");
    const Json& running = r.raw("running");
    ROLL_TRY_VOID(r.finish_lenient());
    if (heartbeat.session.empty() || heartbeat.node.empty())
        return fail(ErrorCode::Corrupt, "heartbeat: session and node must not be empty");
    if (heartbeat.slots < 0 || heartbeat.slots > spec::kSlotsMax)
        return fail(ErrorCode::Corrupt, "heartbeat: slots must be 0 to 4096");
    if (heartbeat.gpus < 0 || heartbeat.gpus > spec::kGpusMax)
        return fail(ErrorCode::Corrupt, "heartbeat: gpus must be 0 to 64");
    if (heartbeat.memory < 0 || heartbeat.memory > spec::kMemoryMax)
        return fail(ErrorCode::Corrupt, "heartbeat: memory must be 0 to 1 PiB");
    if (heartbeat.cpus < 0 || heartbeat.cpus > spec::kSlotsMax)
        return fail(ErrorCode::Corrupt, "heartbeat: cpus must be 0 to 4096");
    if (!pilot.is_null()) {
        ROLL_TRY(heartbeat.pilot, read_pilot(pilot));
    }
    ROLL_TRY_VOID(read_list(running, "heartbeat.running", heartbeat.running, &read_running));
    return heartbeat;
}

// Requires that `before` is a valid heartbeat, which has the key "sequence". If `before` contains
// the text `"sequence":` exactly once, this text is the key. If the text occurs several times, it
// may be part of a string, so the result is nullopt.
std::optional<std::uint64_t> repeated(std::string_view before, std::string_view frame) {
    constexpr std::string_view kName = "\"sequence\":";
    constexpr std::string_view kDigits = "0123456789";
    const std::size_t at = before.find(kName);
    if (at == before.npos || before.find(kName, at + 1) != before.npos) return std::nullopt;
    const std::size_t begin = at + kName.size();
    if (frame.substr(0, begin) != before.substr(0, begin)) return std::nullopt;
    const std::size_t end = std::min(frame.find_first_not_of(kDigits, begin), frame.size());
    const std::size_t old_end = std::min(before.find_first_not_of(kDigits, begin), before.size());
    if (frame.substr(end) != before.substr(old_end)) return std::nullopt;
    return parse_number<std::uint64_t>(frame.substr(begin, end - begin));
}

std::string encode(const Answer& answer) {
    JsonText text;
    text.add("v", answer.version)
        .add("incarnation", answer.incarnation)
        .add("sequence", answer.sequence)
        .add("counted", answer.counted)
        .add("counter", answer.counter)
        .add("beacon", answer.beacon)
        .add("keep", texts_of(answer.keep))
        .add("start", texts_of(answer.start))
        .add("stop", texts_of(answer.stop))
        .add("recorded", texts_of(answer.recorded))
        .add("fenced", texts_of(answer.fenced));
    if (!answer.save.empty()) text.add("save", texts_of(answer.save));
    if (!answer.tell.empty()) text.add("tell", texts_of(answer.tell));
    if (!answer.refused.empty()) text.add("refused", answer.refused);
    if (answer.keep_asking) text.add("keep_asking", answer.keep_asking);
    return text.text();
}

Result<Answer> decode_answer(std::string_view frame) {
    ROLL_TRY(const Json json, parse_frame(frame, "answer"));
    JsonReader r(json, "answer");
    Answer answer;
    answer.version = r.get<int>("v");
    answer.incarnation = r.get<std::uint64_t>("incarnation");
    answer.sequence = r.get<std::uint64_t>("sequence");
    answer.counted = r.get<std::int64_t>("counted");
    answer.counter = r.get<std::uint64_t>("counter");
    answer.beacon = r.get<std::string>("beacon");
    answer.refused = r.get_or("refused", std::string{});
    answer.keep_asking = r.get_or("keep_asking", false);
    const Json& keep = r.raw("keep");
    const Json& start = r.raw("start");
    const Json& stop = r.raw("stop");
    const Json& save = r.raw("save");
    const Json& tell = r.raw("tell");
    const Json& recorded = r.raw("recorded");
    const Json& fenced = r.raw("fenced");
    ROLL_TRY_VOID(r.finish_lenient());
    if (!save.is_null()) ROLL_TRY_VOID(read_list(save, "answer.save", answer.save, &read_save));
    if (!tell.is_null()) ROLL_TRY_VOID(read_tells(tell, answer.tell));
    ROLL_TRY_VOID(read_list(keep, "answer.keep", answer.keep, &read_attempt_key));
    ROLL_TRY_VOID(read_list(start, "answer.start", answer.start, &read_start));
    ROLL_TRY_VOID(read_list(stop, "answer.stop", answer.stop, &read_stop));
    ROLL_TRY_VOID(read_list(recorded, "answer.recorded", answer.recorded, &read_recorded));
    ROLL_TRY_VOID(read_list(fenced, "answer.fenced", answer.fenced, &read_attempt_key));
    return answer;
}

}  // namespace roll::protocol
