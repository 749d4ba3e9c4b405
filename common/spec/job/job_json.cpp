#include "common/spec/job/job_json.hpp"

#include <fmt/format.h>

#include "common/spec/schema/array.hpp"

namespace roll::spec {
namespace {

Result<After> read_after(const Json& json) {
    JsonReader reader(json, "job.after");
    After after;
    const auto condition = reader.get<std::string>("condition");
    after.job.value = reader.get<std::uint64_t>("job");
    after.array = reader.get_or("array", false);
    ROLL_TRY_VOID(reader.finish());
    const auto known = parse_condition(condition);
    if (!known) return fail(ErrorCode::Corrupt, "job.after: unknown condition " + condition);
    after.condition = *known;
    return after;
}

Json put_meaning(const Meaning& meaning) {
    Json json = Json::object();
    if (meaning.then) json["then"] = name_of(*meaning.then);
    if (!meaning.label.empty()) json["label"] = meaning.label;
    return json;
}

// Reads the rule for an exit code or a log line from an object. Older programs wrote a string such
// as "stop" instead.
Result<Meaning> read_meaning(const Json& json) {
    Meaning meaning;
    const Json label = json.is_object() ? json.value("label", Json()) : Json();
    if (!label.is_null() && !label.is_string())
        return fail(ErrorCode::Corrupt, "job.retry: a label is not a string: " + label.dump());
    if (label.is_string()) meaning.label = label.get<std::string>();
    const Json then = json.is_object() ? json.value("then", Json()) : json;
    if (then.is_null()) return meaning;
    if (then.is_string()) meaning.then = parse_on_exit(then.get<std::string>());
    if (!meaning.then) return fail(ErrorCode::Corrupt, "job.retry: unknown policy " + then.dump());
    return meaning;
}

JsonText put_retry(const Retry& retry) {
    Json on_exit = Json::object();
    for (const auto& [code, what] : retry.on_exit)
        on_exit[std::to_string(code)] = put_meaning(what);
    Json on_log = Json::array();
    for (const OnLog& one : retry.on_log) {
        on_log.push_back(put_meaning(one.meaning));
        on_log.back()["match"] = one.match;
    }
    return JsonText()
        .add("infra", retry.infra)
        .add("app", retry.app)
        .add("timeout", retry.timeout)
        .add("preempted", retry.preempted)
        .add("no_progress", retry.no_progress)
        .add("backoff_seconds", retry.backoff.count())
        .add("backoff_max_seconds", retry.backoff_max.count())
        .add("on_exit", on_exit)
        .add("on_log", on_log);
}

// Reads `retry`. An older program may have left out a field. Such a field gets the value that
// matches the behaviour of that program.
Result<Retry> read_retry(const Json& json) {
    JsonReader reader(json, "job.retry");
    Retry retry;
    retry.infra = reader.get<int>("infra");
    retry.app = reader.get<int>("app");
    retry.timeout = reader.get_or("timeout", retry.timeout);
    retry.preempted = reader.get_or("preempted", retry.preempted);
    retry.no_progress = reader.get_or("no_progress", retry.no_progress);
    retry.backoff = std::chrono::seconds(reader.get_or<std::int64_t>("backoff_seconds", 1));
    retry.backoff_max =
        std::chrono::seconds(reader.get_or<std::int64_t>("backoff_max_seconds", 256));
    const Json on_exit = reader.has("on_exit") ? reader.raw("on_exit") : Json::object();
    const Json on_log = reader.has("on_log") ? reader.raw("on_log") : Json::array();
    ROLL_TRY_VOID(reader.finish());
    if (!on_exit.is_object() || !on_log.is_array())
        return fail(ErrorCode::Corrupt, "job.retry: on_exit must be an object, on_log a list");
    for (const auto& [code, what] : on_exit.items()) {
        ROLL_TRY(retry.on_exit[std::atoi(code.c_str())], read_meaning(what));
    }
    for (const Json& one : on_log) {
        const Json match = one.is_object() ? one.value("match", Json()) : Json();
        if (!match.is_string())
            return fail(ErrorCode::Corrupt,
                        "job.retry.on_log: match is not a string: " + one.dump());
        ROLL_TRY(Meaning meaning, read_meaning(one));
        retry.on_log.push_back({match.get<std::string>(), std::move(meaning)});
    }
    return retry;
}

std::int64_t put_time(Time time) { return time.time_since_epoch().count(); }

std::optional<Time> get_time(JsonReader& reader, const char* key) {
    const auto ms = reader.get_or<std::int64_t>(key, -1);
    return ms < 0 ? std::nullopt : std::optional(Time{std::chrono::milliseconds(ms)});
}

Result<Array> read_array(const Json& json) {
    JsonReader reader(json, "job.array");
    Array array;
    array.indices = reader.get<std::string>("indices");
    array.limit = reader.get<int>("limit");
    array.index = reader.get<int>("index");
    ROLL_TRY_VOID(reader.finish());
    return array;
}

}  // namespace

JsonText text_of(const JobSpec& spec) {
    std::vector<JsonText> after;
    for (const After& one : spec.after) {
        after.push_back(
            JsonText().add("condition", name_of(one.condition)).add("job", one.job.value));
        if (one.array) after.back().add("array", true);
    }
    JsonText text;
    text.add("name", spec.name)
        .add("kind", name_of(spec.kind))
        .add("resources", text_of(spec.resources))
        .add("after", after)
        .add("retry", put_retry(spec.retry))
        .add("priority", spec.priority)
        .add("hold", spec.hold)
        .add("output", spec.output)
        .add("source_job", spec.source_job ? Json(spec.source_job->value) : Json())
        .add("export_document", spec.export_document)
        .add("document", spec.document.text());
    // The fields from here on are written only if they are set.
    std::vector<JsonText> variants;
    for (const Resources& one : spec.variants) variants.push_back(text_of(one));
    if (!variants.empty()) text.add("variants", variants);
    if (spec.begin) text.add("begin", put_time(*spec.begin));
    if (spec.deadline) text.add("deadline", put_time(*spec.deadline));
    if (!spec.account.empty()) text.add("account", spec.account);
    if (!spec.cron.empty()) text.add("cron", spec.cron);
    if (spec.open) text.add("open", true);
    if (spec.into) text.add("into", spec.into->value);
    if (!spec.secrets.empty()) text.add("secrets", spec.secrets);
    if (!spec.needs.empty()) text.add("needs", spec.needs);
    if (spec.hang_after) text.add("hang_after_seconds", spec.hang_after->count());
    if (spec.array) {
        text.add("array", JsonText()
                              .add("indices", spec.array->indices)
                              .add("limit", spec.array->limit)
                              .add("index", spec.array->index));
    }
    std::vector<JsonText> then;
    for (const JobSpec& next : spec.then) then.push_back(text_of(next));
    if (!then.empty()) text.add("then", then);
    return text;
}

Json json_of(const JobSpec& spec) { return Json::parse(to_json(spec)); }

std::string to_json(const JobSpec& spec) { return text_of(spec).text(); }

Result<JobSpec> job_spec_from_json(std::string_view text) {
    ROLL_TRY(const Json json, parse_json(text));
    return job_spec_of(json);
}

Result<JobSpec> job_spec_of(const Json& json) {
    JsonReader reader(json, "job");
    JobSpec spec;
    spec.name = reader.get<std::string>("name");
    const auto kind = reader.get<std::string>("kind");
    const Json& resources = reader.raw("resources");
    const Json& after = reader.raw("after");
    const Json& retry = reader.raw("retry");
    spec.priority = reader.get<int>("priority");
    spec.hold = reader.get<bool>("hold");
    spec.output = reader.get<std::string>("output");
    const Json& source = reader.raw("source_job");
    if (source.is_number_unsigned()) spec.source_job = JobId{source.get<std::uint64_t>()};
    spec.export_document = reader.get<std::string>("export_document");
    spec.document = reader.get<std::string>("document");
    spec.account = reader.get_or<std::string>("account", "");
    spec.cron = reader.get_or<std::string>("cron", "");
    spec.open = reader.get_or("open", false);
    spec.secrets = reader.get_or("secrets", spec.secrets);
    spec.needs = reader.get_or("needs", spec.needs);
    if (reader.has("into")) spec.into = JobId{reader.get<std::uint64_t>("into")};
    if (reader.has("hang_after_seconds"))
        spec.hang_after = std::chrono::seconds(reader.get<std::int64_t>("hang_after_seconds"));
    spec.begin = get_time(reader, "begin");
    spec.deadline = get_time(reader, "deadline");
    if (reader.has("array")) {
        ROLL_TRY(spec.array, read_array(reader.raw("array")));
    }
    const Json variants = reader.has("variants") ? reader.raw("variants") : Json::array();
    const Json then = reader.has("then") ? reader.raw("then") : Json::array();
    ROLL_TRY_VOID(reader.finish());
    for (const Json& one : then) {
        ROLL_TRY(JobSpec next, job_spec_of(one));
        spec.then.push_back(std::move(next));
    }
    ROLL_TRY(spec.retry, read_retry(retry));
    if (!source.is_null() && !source.is_number_unsigned()) {
        return fail(ErrorCode::Corrupt, "job: source_job is not a job id: " + source.dump());
    }

    const auto parsed = parse_kind(kind);
    if (!parsed) return fail(ErrorCode::Corrupt, fmt::format("job: unknown kind {}", kind));
    spec.kind = *parsed;
    ROLL_TRY(spec.resources, resources_of(resources));
    for (const Json& one : variants) {
        ROLL_TRY(Resources variant, resources_of(one));
        spec.variants.push_back(variant);
    }
    if (!after.is_array()) return fail(ErrorCode::Corrupt, "job: after is not an array");
    for (const Json& one : after) {
        ROLL_TRY(After read, read_after(one));
        spec.after.push_back(read);
    }
    return spec;
}

}  // namespace roll::spec
