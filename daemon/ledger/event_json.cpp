#include "daemon/ledger/event_json.hpp"

#include <array>

#include "common/json_text.hpp"
#include "common/outcome.hpp"
#include "common/spec/job/job_json.hpp"
#include "daemon/ledger/event_fields.hpp"

namespace roll::ledger {
namespace {

// Names of the kinds, in the order of the alternatives of core::Event.
constexpr std::array kKinds = {
    "incarnation_raised",
    "job_submitted",
    "export_queued",
    "job_held",
    "job_priority_changed",
    "job_cancel_requested",
    "job_requeued",
    "job_ended",
    "attempt_placed",
    "attempt_started",
    "attempt_stopping",
    "member_ended",
    "attempt_ended",
    "checkpoint_recorded",
    "checkpoint_pruned",
    "export_recorded",
    "worker_joined",
    "worker_drained",
    "worker_lost",
    "member_up",
    "job_due",
    "job_begin_changed",
    "queue_added",
    "queue_paused",
    "queue_removing",
    "queue_removed",
    "allocation_ordered",
    "allocation_accepted",
    "allocation_granted",
    "allocation_returned",
    "allocation_releasing",
    "allocation_ended",
    "pilot_joined",
    "policy_set",
    "checkpoint_asked",
    "machine_excluded",
    "machine_forgiven",
    "use_carried",
    "worker_quiet",
    "adopting_set",
    "dispatch_stopped",
    "job_closed",
    "secrets_known",
    "attempt_fenced",
    "clock_stepped",
    "training_asked",
    "training_answered",
    "allocation_closed",
};
static_assert(kKinds.size() == std::variant_size_v<core::AnyEvent>);

template <class Enum, std::size_t N>
Enum enum_from(const Json& json, const std::array<const char*, N>& names) {
    const auto& text = json.get_ref<const std::string&>();
    const auto found = find_name<Enum>(names, text);
    if (!found) throw std::invalid_argument("unknown name " + text);
    return *found;
}

// put() converts a value to a form that JsonText can write.
template <class T>
const T& put(const T& value) {
    return value;
}
template <class Tag>
auto put(const Id<Tag>& id) {
    return id.value;
}
std::string put(const Token& token) { return to_string(token); }
JsonText put(const AttemptKey& key) {
    return JsonText().add("job", key.job.value).add("token", to_string(key.token));
}
std::int64_t put(const Time& time) { return time.time_since_epoch().count(); }
const char* put(const core::JobPhase& phase) { return name_in(core::kJobPhases, phase); }
const char* put(const RequestKind& kind) { return name_of(kind); }
const char* put(const core::Outcome& outcome) { return name_of(outcome); }
JsonText put(const spec::JobSpec& spec) { return spec::text_of(spec); }
Json put(const spec::PilotQueue& queue) { return Json::parse(spec::to_json(queue)); }
Json put(const spec::Policy& policy) { return Json::parse(spec::to_json(policy)); }
std::vector<JsonText> put(const core::SecretNames& names) {
    std::vector<JsonText> all;
    for (const auto& [user, name] : names)
        all.push_back(JsonText().add("user", user).add("name", name));
    return all;
}
JsonText put(const core::Usage& usage) {
    JsonText text = JsonText()
                        .add("cpu_ms", usage.cpu_ms)
                        .add("memory_peak", usage.memory_peak)
                        .add("wall_ms", usage.wall_ms)
                        .add("gpu_ms", usage.gpu_ms);
    if (usage.disk_read != 0) text.add("disk_read", usage.disk_read);
    if (usage.disk_written != 0) text.add("disk_written", usage.disk_written);
    return text;
}
std::vector<JsonText> put(const std::vector<core::Place>& places) {
    std::vector<JsonText> all;
    for (const core::Place& place : places) {
        JsonText& text = all.emplace_back();
        text.add("worker", place.worker.value).add("slots", place.slots).add("gpus", place.gpus);
        if (place.gpu_percent != 100) text.add("gpu_percent", place.gpu_percent);
        if (place.spare) text.add("spare", true);
        if (place.memory != 0) text.add("memory", place.memory);
        if (place.cpus != 0) text.add("cpus", place.cpus);
    }
    return all;
}

// take() reads a value from JSON, and throws if the value is wrong. event_from() converts the
// exception to an Error.
template <class T>
void take(const Json& json, T& value) {
    json.get_to(value);
}
template <class Tag>
void take(const Json& json, Id<Tag>& id) {
    json.get_to(id.value);
}
void take(const Json& json, Token& token) {
    const auto parsed = parse_token(json.get_ref<const std::string&>());
    if (!parsed) throw std::invalid_argument("not a token: " + json.dump());
    token = *parsed;
}
void take(const Json& json, AttemptKey& key) {
    json.at("job").get_to(key.job.value);
    take(json.at("token"), key.token);
}
void take(const Json& json, Time& time) {
    time = Time{std::chrono::milliseconds{json.get<std::int64_t>()}};
}
void take(const Json& json, core::JobPhase& phase) {
    phase = enum_from<core::JobPhase>(json, core::kJobPhases);
}
void take(const Json& json, core::Outcome& outcome) {
    outcome = enum_from<core::Outcome>(json, kOutcomes);
}
void take(const Json& json, RequestKind& kind) {
    kind = enum_from<RequestKind>(json, kRequestKinds);
}
void take(const Json& json, spec::JobSpec& spec) {
    auto parsed = spec::job_spec_of(json);
    if (!parsed) throw std::invalid_argument(parsed.error().message);
    spec = *std::move(parsed);
}
void take(const Json& json, spec::PilotQueue& queue) {
    auto parsed = spec::pilot_queue_from_json(json.dump());
    if (!parsed) throw std::invalid_argument(parsed.error().message);
    queue = *std::move(parsed);
}
void take(const Json& json, spec::Policy& policy) {
    auto parsed = spec::policy_from_json(json.dump());
    if (!parsed) throw std::invalid_argument(parsed.error().message);
    policy = *std::move(parsed);
}
void take(const Json& json, core::SecretNames& names) {
    for (const Json& item : json)
        names.insert({item.at("user").get<std::string>(), item.at("name").get<std::string>()});
}
void take(const Json& json, core::Usage& usage) {
    json.at("cpu_ms").get_to(usage.cpu_ms);
    json.at("memory_peak").get_to(usage.memory_peak);
    json.at("wall_ms").get_to(usage.wall_ms);
    json.at("gpu_ms").get_to(usage.gpu_ms);
    usage.disk_read = json.value("disk_read", std::int64_t{0});
    usage.disk_written = json.value("disk_written", std::int64_t{0});
}
void take(const Json& json, std::vector<core::Place>& places) {
    for (const Json& item : json) {
        core::Place place;
        item.at("worker").get_to(place.worker.value);
        item.at("slots").get_to(place.slots);
        item.at("gpus").get_to(place.gpus);
        place.gpu_percent = item.value("gpu_percent", 100);
        place.spare = item.value("spare", false);
        place.memory = item.value("memory", std::int64_t{0});
        place.cpus = item.value("cpus", 0);
        places.push_back(std::move(place));
    }
}

struct FieldWriter {
    JsonText text{};
    template <class T>
    void operator()(const char* name, const T& value) {
        text.add(name, put(value));
    }
    // Writes a field that older ledgers lack. Leaves the field out if it has its default value.
    template <class T>
    void added(const char* name, const T& value) {
        if (value != T{}) (*this)(name, value);
    }
};

struct FieldReader {
    const Json& object;
    std::size_t read = 0;
    template <class T>
    void operator()(const char* name, T& value) {
        take(object.at(name), value);
        ++read;
    }
    template <class T>
    void added(const char* name, T& value) {
        if (object.contains(name)) (*this)(name, value);
    }
};

struct JobFinder {
    std::optional<JobId> job{};
    void operator()(const char*, const JobId& id) { job = id; }
    void operator()(const char*, const AttemptKey& key) { job = key.job; }
    template <class T>
    void operator()(const char*, const T&) {}
    template <class T>
    void added(const char*, const T&) {}
};

template <std::size_t I>
core::Event read_alternative(const Json& json) {
    std::variant_alternative_t<I, core::AnyEvent> event;
    FieldReader reader{json};
    fields(reader, event);
    if (reader.read != json.size()) throw std::invalid_argument("unknown fields in " + json.dump());
    return event;
}

using ReadAlternative = core::Event (*)(const Json&);

template <std::size_t... I>
constexpr auto make_readers(std::index_sequence<I...>) {
    return std::array<ReadAlternative, sizeof...(I)>{read_alternative<I>...};
}

constexpr auto kReaders = make_readers(std::make_index_sequence<kKinds.size()>{});

}  // namespace

const char* kind_of(const core::Event& event) { return kKinds[event.index()]; }

std::optional<JobId> job_of(const core::Event& event) {
    JobFinder finder;
    std::visit([&](auto e) { fields(finder, e); }, event);
    return finder.job;
}

std::string body_of(const core::Event& event) {
    FieldWriter writer;
    std::visit([&](auto e) { fields(writer, e); }, event);
    return writer.text.text();
}

Result<core::Event> event_from(std::string_view kind, std::string_view body) {
    const auto found = std::ranges::find(kKinds, kind);
    if (found == kKinds.end())
        return fail(ErrorCode::Corrupt,
                    "an event has an unknown kind; a newer rolld may have written it: " +
                        std::string(kind));
    ROLL_TRY(const Json json, parse_json(body));
    try {
        return kReaders[static_cast<std::size_t>(found - kKinds.begin())](json);
    } catch (const std::exception& e) {
        return fail(ErrorCode::Corrupt, std::string(kind) + ": " + e.what());
    }
}

}  // namespace roll::ledger
