#include "daemon/query/query.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/outcome.hpp"
#include "common/spec/job/document.hpp"
#include "daemon/core/facts/machines.hpp"
#include "daemon/core/facts/save_margin.hpp"
#include "daemon/query/progress.hpp"
#include "daemon/query/saved.hpp"
#include "daemon/query/starts.hpp"

namespace roll::query {
namespace {

constexpr std::array kAttemptPhases = {"starting", "running", "stopping"};

Json optional_time(const std::optional<Time>& time) {
    return time ? Json(to_iso8601(*time)) : Json(nullptr);
}

Json optional_id(const std::optional<JobId>& id) { return id ? Json(id->value) : Json(nullptr); }

double seconds_of(std::int64_t milliseconds) { return static_cast<double>(milliseconds) / 1000; }

Json resources_json(const spec::Resources& r) {
    return {{"nodes", r.nodes},
            {"slots_per_node", r.slots_per_node},
            {"gpus_per_node", spec::gpus_number(r.gpus_per_node * r.gpu_percent)},
            {"segment", r.segment},
            {"spares", r.spares},
            {"memory", r.memory},
            {"cpus", r.cpus},
            {"slots_per_rank", r.slots_per_rank},
            {"time_seconds", r.time.count()}};
}

// Returns the resource usage of an attempt; null if no worker has reported it.
Json usage_json(const core::Usage& usage) {
    if (usage == core::Usage{}) return nullptr;
    Json json = {{"cpu_seconds", seconds_of(usage.cpu_ms)},
                 {"memory_peak", usage.memory_peak},
                 {"wall_seconds", seconds_of(usage.wall_ms)},
                 {"disk_read", usage.disk_read},
                 {"disk_written", usage.disk_written}};
    if (usage.gpu_ms > 0) json["gpu_seconds"] = seconds_of(usage.gpu_ms);
    return json;
}

// Returns the resource usage of all ended attempts of the job together.
Json usage_json(const core::Job& job) {
    core::Usage sum;
    for (const core::EndedAttempt& attempt : job.past) {
        sum.cpu_ms += attempt.usage.cpu_ms;
        sum.memory_peak = std::max(sum.memory_peak, attempt.usage.memory_peak);
        sum.wall_ms += attempt.usage.wall_ms;
        sum.gpu_ms += attempt.usage.gpu_ms;
        sum.disk_read += attempt.usage.disk_read;
        sum.disk_written += attempt.usage.disk_written;
    }
    return usage_json(sum);
}

// Returns the requests to the training of an attempt, the oldest first.
Json requests_json(const std::vector<core::MadeRequest>& requests) {
    Json all = Json::array();
    for (const core::MadeRequest& made : requests) {
        Json& one = all.emplace_back(Json{{"number", made.request.number},
                                          {"what", name_of(made.request.kind)},
                                          {"value", made.request.value},
                                          {"by", made.by},
                                          {"answered", made.answer.has_value()}});
        if (!made.answer) continue;
        one["step"] = made.answer->step;
        one["answer"] = made.answer->text;
    }
    return all;
}

Json current_attempt(const core::Attempt& attempt) {
    return {{"token", to_string(attempt.token)},
            {"attempt", attempt.token.attempt},
            {"state", name_in(kAttemptPhases, attempt.phase)},
            {"nodes", attempt.nodes},
            {"placed_at", to_iso8601(attempt.placed_at)},
            {"started_at", optional_time(attempt.started_at)},
            {"requests", requests_json(attempt.requests)},
            {"reason", attempt.reason}};
}

Json ended_attempt(const core::EndedAttempt& attempt) {
    return {{"token", to_string(attempt.token)},
            {"attempt", attempt.token.attempt},
            {"state", "ended"},
            {"nodes", attempt.nodes},
            {"placed_at", to_iso8601(attempt.placed_at)},
            {"started_at", optional_time(attempt.started_at)},
            {"ended_at", to_iso8601(attempt.ended_at)},
            {"outcome", name_of(attempt.outcome)},
            {"exit_code", attempt.exit_code},
            {"blamed", attempt.blamed},
            {"usage", usage_json(attempt.usage)},
            {"requests", requests_json(attempt.requests)},
            {"reason", attempt.reason}};
}

// Returns, for each node of the current attempt, how the worker enforces the job's limits; empty if
// the job has no limits.
Json limits_json(const core::State& state, const core::Job& job, const Hearsay& hearsay) {
    Json limits = Json::object();
    const spec::Resources& wanted = job.resources();
    if (!job.attempt || (wanted.memory == 0 && wanted.cpus == 0)) return limits;
    for (const core::Place& place : job.attempt->places) {
        const auto worker = state.workers.find(place.worker);
        const auto heard = hearsay.workers.find(place.worker);
        if (worker != state.workers.end() && heard != hearsay.workers.end())
            limits[worker->second.node] = heard->second.limits;
    }
    return limits;
}

Json attempts_json(const core::Job& job) {
    Json all = Json::array();
    for (const core::EndedAttempt& attempt : job.past) all.push_back(ended_attempt(attempt));
    if (job.attempt) all.push_back(current_attempt(*job.attempt));
    return all;
}

Json times_json(const spec::JobSpec& spec) {
    Json times = Json::object();
    if (spec.begin) times["begin"] = to_iso8601(*spec.begin);
    if (spec.deadline) times["deadline"] = to_iso8601(*spec.deadline);
    return times;
}

Json array_json(const core::Job& job) {
    if (!job.spec.array) return nullptr;
    return {{"job", job.array.value},
            {"index", job.spec.array->index},
            {"indices", job.spec.array->indices},
            {"limit", job.spec.array->limit}};
}

// Returns why and until when the node's machine is excluded for faults; null if the machine is not
// excluded.
Json excluded_json(const core::State& state, const std::string& node) {
    const auto machine = state.machines.find(core::machine_of(node));
    if (machine == state.machines.end() || !machine->second.excluded_until) return nullptr;
    return {{"machine", machine->first},
            {"until", to_iso8601(*machine->second.excluded_until)},
            {"reason", machine->second.reason}};
}

// The resources of a worker that running attempts hold, and the jobs of these attempts.
struct Taken {
    int slots = 0;
    int gpu_hundredths = 0;
    std::int64_t memory = 0;
    int cpus = 0;
    Json jobs = Json::array();
};

std::map<WorkerId, Taken> taken_of(const core::State& state) {
    std::map<WorkerId, Taken> all;
    for (const JobId id : state.index.running) {
        for (const core::Place& place : state.jobs.at(id).attempt->places) {
            Taken& taken = all[place.worker];
            taken.slots += static_cast<int>(place.slots.size());
            taken.gpu_hundredths += static_cast<int>(place.gpus.size()) * place.gpu_percent;
            taken.memory += place.memory;
            taken.cpus += place.cpus;
            taken.jobs.push_back(id.value);
        }
    }
    return all;
}

}  // namespace

const char* kind_name(const core::Job& job) {
    return job.spec.open ? "open" : spec::name_of(job.spec.kind);
}

std::string condition_text(const spec::After& after) {
    return fmt::format("{}:{}", spec::name_of(after.condition), after.job.value);
}

namespace {

std::optional<Time> first_start(const core::Job& job) {
    std::optional<Time> started;
    if (!job.past.empty()) started = job.past.front().started_at;
    if (!started && job.attempt) started = job.attempt->started_at;
    return started;
}

Json after_json(const core::Job& job) {
    Json after = Json::array();
    for (const spec::After& one : job.spec.after) after.push_back(condition_text(one));
    return after;
}

// Returns the progress that the members of the job's attempt reported, merged into one report. Its
// `memory` and `cpu_seconds` are sums over all nodes.
Progress progress_of(JobId id, const Hearsay& hearsay) {
    Progress all{nullptr};
    for (const Told& told : hearsay.told ? hearsay.told(id) : std::vector<Told>()) {
        Progress one = read_progress(told.progress, told.node);
        for (Json& rank : one.ranks) all.ranks.push_back(std::move(rank));
        for (Json& node : one.memory) all.memory.push_back(std::move(node));
        all.cpu_ms += one.cpu_ms;
        if (!one.told.empty()) all.told = std::move(one.told);
    }
    std::int64_t memory = 0;
    for (const Json& node : all.memory) memory += node["bytes"].get<std::int64_t>();
    if (!all.memory.empty()) all.told["memory"] = memory;
    if (all.cpu_ms > 0) all.told["cpu_seconds"] = seconds_of(all.cpu_ms);
    return all;
}

// Computes texts about why the jobs of a page wait. Jobs that are equal for placement share one
// text, so this text is computed only once.
class Waits {
  public:
    Waits(const core::State& state, Time now) : state_(state), now_(now) {}

    const std::string& of(JobId id, const core::Job& job) {
        const core::ReadyJobs* const line = line_of(id, job);
        if (line == nullptr) return other_ = waiting(state_, id, now_);
        const auto [text, fresh] = texts_.try_emplace(line);
        if (fresh) text->second = waiting(state_, id, now_);
        return text->second;
    }

  private:
    // Returns the group of ready jobs that contains the job; nullptr if there is none. Also returns
    // nullptr if there are more than kGroupsMax groups, because searching all of them would take
    // longer than computing the text of the job.
    const core::ReadyJobs* line_of(JobId id, const core::Job& job) const {
        constexpr std::size_t kGroupsMax = 16;
        const auto& ready = state_.index.ready;
        if (ready.size() > kGroupsMax || !job.spec.after.empty()) return nullptr;
        for (const auto& [group, line] : ready)
            if (line.by_priority.contains({job.spec.priority, id})) return &line;
        return nullptr;
    }

    const core::State& state_;
    Time now_;
    std::map<const core::ReadyJobs*, std::string> texts_{};
    std::string other_{};
};

// The data from which the fields of a job's summary are computed.
struct View {
    const core::State& state;
    JobId id;
    const core::Job& job;
    const Hearsay& hearsay;
    Waits& waits;
    Starts& starts;
    Time now;
};
struct Field {
    std::string_view name;
    Json (*value)(const View&);
};

constexpr std::array kFields = {
    Field{"id", [](const View& v) { return Json(v.id.value); }},
    Field{"name", [](const View& v) { return Json(v.job.spec.name); }},
    Field{"kind", [](const View& v) { return Json(kind_name(v.job)); }},
    Field{"user", [](const View& v) { return Json(v.job.user); }},
    Field{"account", [](const View& v) { return Json(v.job.spec.account); }},
    Field{"state", [](const View& v) { return Json(name_in(core::kJobPhases, v.job.phase)); }},
    Field{"held", [](const View& v) { return Json(v.job.held); }},
    Field{"cancelling",
          [](const View& v) { return Json(v.job.cancel_requested && !is_over(v.job.phase)); }},
    Field{"priority", [](const View& v) { return Json(v.job.spec.priority); }},
    Field{"submitted_at", [](const View& v) { return Json(to_iso8601(v.job.submitted_at)); }},
    Field{"started_at", [](const View& v) { return optional_time(first_start(v.job)); }},
    Field{"ended_at", [](const View& v) { return optional_time(v.job.ended_at); }},
    Field{"exit_code",
          [](const View& v) { return is_over(v.job.phase) ? Json(v.job.exit_code) : Json(); }},
    Field{"reason", [](const View& v) { return Json(v.job.reason); }},
    Field{"halved", [](const View& v) { return Json(v.job.stopped_by_halving()); }},
    Field{"labels", [](const View& v) { return Json(v.job.labels); }},
    Field{"waiting", [](const View& v) { return Json(v.waits.of(v.id, v.job)); }},
    Field{"output", [](const View& v) { return Json(v.job.spec.output); }},
    Field{"attempt", [](const View& v) { return Json(v.job.attempts); }},
    Field{"nodes",
          [](const View& v) { return v.job.attempt ? Json(v.job.attempt->nodes) : Json::array(); }},
    Field{"source_job", [](const View& v) { return optional_id(v.job.spec.source_job); }},
    Field{"export_job", [](const View& v) { return optional_id(v.job.export_job); }},
    Field{"into", [](const View& v) { return optional_id(v.job.spec.into); }},
    Field{"after", [](const View& v) { return after_json(v.job); }},
    Field{"resources", [](const View& v) { return resources_json(v.job.spec.resources); }},
    Field{"times", [](const View& v) { return times_json(v.job.spec); }},
    Field{"array", [](const View& v) { return array_json(v.job); }},
    Field{"usage", [](const View& v) { return usage_json(v.job); }},
    Field{"progress", [](const View& v) { return progress_of(v.id, v.hearsay).told; }},
    Field{"ettr", [](const View& v) { return ettr(v.job, v.now); }},
    Field{"starts_at", [](const View& v) { return optional_time(v.starts.of(v.id, v.job)); }},
};

static_assert(std::ranges::equal(kFields, protocol::kJobFields, {}, &Field::name));

// Returns the fields with these names, or all fields if `names` is empty. Ignores unknown names,
// because a newer client may send them.
std::vector<Field> fields_of(const std::vector<std::string>& names) {
    std::vector<Field> fields;
    for (const Field& field : kFields) {
        if (names.empty() || std::ranges::find(names, field.name) != names.end())
            fields.push_back(field);
    }
    return fields;
}

Json summary(const View& view, std::span<const Field> fields) {
    Json object = Json::object();
    for (const Field& field : fields) object[field.name] = field.value(view);
    return object;
}

}  // namespace

Json summary(const core::State& state, JobId id, const Hearsay& hearsay, Time now) {
    Waits waits(state, now);
    Starts starts(state, now);
    return summary({state, id, state.jobs.at(id), hearsay, waits, starts, now}, kFields);
}

struct Rows::Parts {
    const core::State& state;
    const Hearsay& hearsay;
    Waits waits;
    Starts starts;
    std::vector<Field> fields;
    Time now;
};

Rows::Rows(const core::State& state, const Hearsay& hearsay, Time now,
           const std::vector<std::string>& fields)
    : parts_(new Parts{state, hearsay, Waits(state, now), Starts(state, now), fields_of(fields),
                       now}) {}

Rows::~Rows() = default;

Json Rows::row(JobId id, const core::Job& job) {
    return summary(
        {parts_->state, id, job, parts_->hearsay, parts_->waits, parts_->starts, parts_->now},
        parts_->fields);
}

Result<Json> show(const core::State& state, const protocol::ShowArgs& args, const Hearsay& hearsay,
                  Time now) {
    const std::string selector = args.id.is_string() ? args.id.get<std::string>() : args.id.dump();
    ROLL_TRY(const auto ids, select(state, selector, args.me));
    if (ids.size() != 1) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("\"{}\" selects {} jobs; `rollctl show` accepts only one", selector,
                                ids.size()),
                    "rollctl jobs " + selector);
    }
    const JobId id = ids.front();
    const core::Job& job = state.jobs.at(id);
    Json value = summary(state, id, hearsay, now);
    value["attempts"] = attempts_json(job);
    value["checkpoints"] = checkpoints_json(job);
    value["exports"] = exports_json(job);
    value["exported"] = job.exported;
    value["save_margin_ms"] = core::save_margin(job.save_ms).count();
    const Progress progress = progress_of(id, hearsay);
    value["ranks"] = with_scores(progress.ranks);
    value["memory"] = progress.memory;
    value["limits"] = limits_json(state, job, hearsay);
    value["holds"] = holds_json(holds(state, id, now));
    value["retries"] = {{"infra", job.infra_failures},
                        {"app", job.app_failures},
                        {"timeout", job.timeouts},
                        {"preempted", job.preemptions},
                        {"no_progress", job.stalled}};
    value["spec"] = spec::read_document(job.spec.document.text()).value_or(Json());
    return Json{{"schema", "roll.job/1"}, {"job", std::move(value)}};
}

// Hides the values of `env` in a job file, and in the later jobs of its chain. Unless `keep_diff`,
// also removes the diff of the work tree.
static void hide_values(Json& document, bool keep_diff) {
    if (!document.is_object()) return;
    if (document.contains("env"))
        for (Json& value : document["env"]) value = nullptr;
    const auto hide_parameters = [](Json& parameters) {
        if (!parameters.is_object()) return;
        for (auto& [path, value] : parameters.items())
            if (path == "env" || path.starts_with("env.")) value = nullptr;
    };
    if (document.contains("sweep") && document["sweep"].is_object()) {
        Json& sweep = document["sweep"];
        if (sweep.contains("parameters")) hide_parameters(sweep["parameters"]);
        if (sweep.contains("trials") && sweep["trials"].is_array())
            for (Json& trial : sweep["trials"]) hide_parameters(trial);
    }
    if (!keep_diff && document.contains("git") && document["git"].is_object())
        document["git"].erase("diff");
    if (document.contains("then"))
        for (Json& next : document["then"]) hide_values(next, keep_diff);
}

void hide_private(Json& shown, const std::string& user, bool is_operator) {
    Json& job = shown["job"];
    if (job["user"] != user) hide_values(job["spec"], is_operator);
}

Json holds_json(const std::vector<Hold>& holds) {
    Json all = Json::array();
    for (const Hold& hold : holds) {
        Json one = {{"rule", hold.rule}, {"why", hold.why}, {"remedy", hold.remedy}};
        for (const auto& [node, why] : hold.nodes)
            one["nodes"].push_back({{"node", node}, {"why", why}});
        all.push_back(std::move(one));
    }
    return all;
}

Json nodes(const core::State& state, const Hearsay& hearsay, std::size_t limit) {
    const std::map<WorkerId, Taken> all_taken = taken_of(state);
    Json list = Json::array();
    std::int64_t slots = 0, slots_free = 0, gpus = 0, hundredths_free = 0;
    for (const auto& [id, worker] : state.workers) {
        const auto found = all_taken.find(id);
        const Taken taken = found == all_taken.end() ? Taken{} : found->second;
        slots += worker.slots;
        slots_free += worker.slots - taken.slots;
        gpus += worker.gpus;
        hundredths_free += std::int64_t{100} * worker.gpus - taken.gpu_hundredths;
        if (list.size() >= limit) continue;
        const auto told = hearsay.workers.find(id);
        const HeardWorker heard = told == hearsay.workers.end() ? HeardWorker{} : told->second;
        list.push_back({{"node", worker.node},
                        {"slots", worker.slots},
                        {"gpus", worker.gpus},
                        {"slots_free", worker.slots - taken.slots},
                        {"gpus_free", spec::gpus_number(100 * worker.gpus - taken.gpu_hundredths)},
                        {"memory", worker.memory},
                        {"memory_free", worker.memory - taken.memory},
                        {"cpus", worker.cpus},
                        {"cpus_free", worker.cpus - taken.cpus},
                        {"limits", heard.limits},
                        {"segment", worker.segment},
                        {"wall", heard.wall},
                        {"draining", worker.draining},
                        {"silent", worker.quiet},
                        {"excluded", excluded_json(state, worker.node)},
                        {"allocation", worker.allocation.value},
                        {"jobs", taken.jobs},
                        {"joined_at", to_iso8601(worker.joined_at)},
                        {"process", heard.process},
                        {"heard_ms_ago", heard.heard_ms_ago ? Json(*heard.heard_ms_ago) : Json()}});
    }
    Json excluded = Json::array();
    for (const auto& [name, machine] : state.machines) {
        if (machine.excluded_until) excluded.push_back(excluded_json(state, name));
    }
    return {{"schema", "roll.nodes/1"},
            {"stopped", state.stopped ? Json(*state.stopped) : Json(nullptr)},
            {"all",
             {{"nodes", state.workers.size()},
              {"slots", slots},
              {"slots_free", slots_free},
              {"gpus", gpus},
              {"gpus_free", spec::gpus_number(hundredths_free)}}},
            {"nodes", std::move(list)},
            {"excluded", excluded}};
}

}  // namespace roll::query
