#include "common/protocol/worker.hpp"

#include <algorithm>
#include <array>

#include "common/number.hpp"
#include "common/protocol/field_lists.hpp"
#include "common/spec/job/node_sizes.hpp"

namespace roll::protocol {

// the names are in the order of Phase
constexpr std::array kPhases = {"starting", "running", "stopping", "ended"};

constexpr const auto& names_of(Phase) { return kPhases; }

// Returns whether the numbers are in their ranges. The maximum of each time is about a thousand
// years, so that sums over the workers of an attempt do not overflow.
static bool is_valid(const Usage& usage) {
    constexpr std::int64_t kMillisMax = std::int64_t{1} << 45;
    return lowest(usage) >= 0 &&
           std::max({usage.cpu_ms, usage.wall_ms, usage.gpu_ms}) <= kMillisMax &&
           usage.memory_peak <= spec::kMemoryMax &&
           std::max(usage.disk_read, usage.disk_written) <= kDiskBytesMax;
}

// clang-format off
template <class V, Like<Usage> T> void fields(V& v, T& u) {
    v("cpu_ms", u.cpu_ms); v("memory_peak", u.memory_peak); v("wall_ms", u.wall_ms); v("gpu_ms", u.gpu_ms);
    v.optional("disk_read", u.disk_read); v.optional("disk_written", u.disk_written);
    if constexpr (V::kReads) if (!is_valid(u)) v.refuse("a number is too large or negative");
}
template <class V, Like<RunningAttempt> T> void fields(V& v, T& r) {
    v("attempt", r.attempt); v("phase", r.phase);
    if (r.phase == Phase::Ended) {
        v("outcome", r.outcome); v.optional("exit_code", r.exit_code); v.optional("reason", r.reason);
        v.added("matched", r.matched); v.added("usage", r.usage);
    }
    v.added("checkpoints", r.checkpoints); v.added("exported", r.exported); v.added("exports", r.exports);
    v.added("answers", r.answers); v.added("progress", r.progress);
}
template <class V, Like<StartOrder> T> void fields(V& v, T& o) {
    v("attempt", o.attempt); v("kind", o.kind); v("document", o.document); v("output", o.output);
    v("node_rank", o.node_rank); v("nodes", o.nodes); v("ranks_per_node", o.ranks_per_node);
    v("slots", o.slots); v("gpus", o.gpus); v.optional("gpu_percent", o.gpu_percent);
    v("nonce", o.nonce); v("checkpoints", o.checkpoints);
    v.optional("time_limit_seconds", o.time_limit_seconds); v.optional("hang_after_seconds", o.hang_after_seconds);
    v.added("secrets", o.secrets); v.added("memory", o.memory); v.added("cpus", o.cpus);
    v.added("tasks_per_node", o.tasks_per_node); v.added("hosts", o.hosts);
    v.added("slurm_variables", o.slurm_variables); v.added("stop_step", o.stop_step);
    v.added("adds_cpu_times", o.adds_cpu_times); v.added("files", o.files); v.added("refused", o.refused);
}
template <class V, Like<StopOrder> T> void fields(V& v, T& o) {
    v("attempt", o.attempt); v("reason", o.reason);
    v.optional("checkpoint", o.checkpoint); v.optional("grace_seconds", o.grace_seconds);
}
template <class V, Like<SaveOrder> T> void fields(V& v, T& o) { v("attempt", o.attempt); v("asked", o.asked); }
template <class V, Like<TellOrder> T> void fields(V& v, T& o) { v("attempt", o.attempt); fields(v, o.request); }
template <class V, Like<Recorded> T> void fields(V& v, T& r) {
    v("attempt", r.attempt); v("steps", r.steps); v.optional("exported", r.exported);
    v.added("export_step", r.export_step); v.added("answered", r.answered);
}
template <class V, Like<PilotNote> T> void fields(V& v, T& p) {
    constexpr std::int64_t kEndsMax = 1LL << 40;
    v("key", p.key); v("slurm_job", p.slurm_job); v.optional("ends_at", p.ends_at);
    if constexpr (V::kReads) if (p.ends_at < 0 || p.ends_at > kEndsMax) v.refuse("ends_at is not a valid time");
}
template <class V, Like<Heartbeat> T> void fields(V& v, T& h) {
    v("v", h.version); v("session", h.session); v("node", h.node); v.optional("generation", h.generation);
    v("slots", h.slots); v("gpus", h.gpus); v("sequence", h.sequence);
    v("bound_below_lease", h.bound_below_lease); v("heard_recently", h.heard_recently);
    v("draining", h.draining); v.optional("beat_ms", h.beat_ms); v("running", h.running);
    v.added("segment", h.segment); v.added("gpu_numa", h.gpu_numa); v.added("memory", h.memory);
    v.added("cpus", h.cpus); v.added("limits", h.limits); v.added("wall", h.wall); v.added("home", h.home);
    v.added("process", h.process); v.added("features", h.features); v.added("pilot", h.pilot);
}
template <class V, Like<Answer> T> void fields(V& v, T& a) {
    v("v", a.version); v("incarnation", a.incarnation); v("sequence", a.sequence); v("counted", a.counted);
    v("counter", a.counter); v("beacon", a.beacon); v("keep", a.keep); v("start", a.start); v("stop", a.stop);
    v("recorded", a.recorded); v("fenced", a.fenced); v.added("save", a.save); v.added("tell", a.tell);
    v.added("refused", a.refused); v.added("keep_asking", a.keep_asking);
}
// clang-format on

// Reads the list of requests. Leaves out requests of a kind that only newer releases know.
static Result<void> read_value(const Json& json, const std::string& path,
                               std::vector<TellOrder>& orders) {
    if (!json.is_array()) return fail(ErrorCode::Corrupt, path + " is not a list");
    for (const Json& item : json) {
        const Json what = item.is_object() ? item.value("what", Json()) : Json();
        if (what.is_string() && !find_name<RequestKind>(kRequestKinds, what.get<std::string>()))
            continue;
        ROLL_TRY_VOID(read_value(item, path, orders.emplace_back()));
    }
    return {};
}

std::string encode(const Heartbeat& heartbeat) { return text_of(heartbeat).text(); }

std::string encode(const Answer& answer) { return text_of(answer).text(); }

Result<Heartbeat> decode_heartbeat(std::string_view frame) {
    ROLL_TRY(Heartbeat heartbeat, decode_frame<Heartbeat>(frame, "heartbeat"));
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
    return heartbeat;
}

Result<Answer> decode_answer(std::string_view frame) {
    return decode_frame<Answer>(frame, "answer");
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

}  // namespace roll::protocol
