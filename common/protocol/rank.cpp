#include "common/protocol/rank.hpp"

#include "common/overload.hpp"
#include "common/protocol/fields.hpp"
#include "common/protocol/progress.hpp"

namespace roll::protocol {
namespace {

Json report_json(const Report& report) {
    return std::visit(
        Overload{
            [](const Ready&) -> Json {
                return {{"t", "ready"}};
            },
            [](const Progress& p) -> Json {
                Json progress = Json::parse(p.json, nullptr, false);
                if (!progress.is_object()) progress = Json::object();
                return {{"t", "progress"}, {"p", std::move(progress)}};
            },
            [](const CheckpointStaged& c) -> Json {
                Json json = {{"t", "checkpoint"}, {"step", c.step}, {"directory", c.directory}};
                if (c.asked > 0) json["asked"] = c.asked;
                if (c.save_ms > 0) json["save_ms"] = c.save_ms;
                return json;
            },
            [](const StepDone& s) -> Json {
                return {{"t", "step"}, {"step", s.step}, {"steps", s.steps}, {"own_ms", s.own_ms}};
            },
            [](const CheckpointPruned& c) -> Json {
                return {{"t", "pruned"}, {"step", c.step}, {"writer", to_string(c.writer)}};
            },
            [](const ExportDone& e) -> Json {
                return {{"t", "export"}, {"directory", e.directory}};
            },
            [](const CheckpointExported& e) -> Json {
                Json json = to_json(e.written);
                json["t"] = "exported";
                return json;
            },
            [](const Answered& a) -> Json {
                Json json = to_json(a.answer);
                json["t"] = "answered";
                return json;
            },
            [](const Failed& f) -> Json {
                return {{"t", "failed"}, {"message", f.message}};
            }},
        report);
}

Result<Report> read_pruned(JsonReader& r) {
    CheckpointPruned pruned;
    pruned.step = r.get<std::int64_t>("step");
    ROLL_TRY(pruned.writer, read_token(r.raw("writer"), "report.writer"));
    return pruned;
}

Result<Report> read_report(const std::string& type, const Json& line, JsonReader& r) {
    if (type == "ready") return Ready{};
    if (type == "checkpoint")
        return CheckpointStaged{r.get<std::int64_t>("step"), r.get<std::string>("directory"),
                                r.get_or<std::uint64_t>("asked", 0),
                                r.get_or<std::int64_t>("save_ms", 0)};
    if (type == "step")
        return StepDone{r.get<std::int64_t>("step"), r.get<std::int64_t>("steps"),
                        r.get<std::int64_t>("own_ms")};
    if (type == "pruned") return read_pruned(r);
    if (type == "export") return ExportDone{r.get<std::string>("directory")};
    if (type == "exported") {
        ROLL_TRY(WrittenExport written, read_written_export(line, "report"));
        return CheckpointExported{std::move(written)};
    }
    if (type == "answered") {
        ROLL_TRY(RequestAnswer answer, read_request_answer(line, "report"));
        return Answered{std::move(answer)};
    }
    if (type == "failed") return Failed{r.get<std::string>("message")};
    if (type != "progress")
        return fail(ErrorCode::Corrupt, "report: unknown type " + type.substr(0, 40));
    Json told = r.raw("p");
    if (told.is_object()) told.erase("ranks");  // only roll-worker may set this key
    const std::string text = dump(told);
    ROLL_TRY_VOID(read_progress(text, kProgressBytesMax));
    return Progress{text};
}

Result<Command> read_command(const std::string& type, const Json&, JsonReader& r) {
    if (type == "recorded") return RecordedStep{r.get<std::int64_t>("step")};
    if (type == "stop") return StopAtStep{r.get<bool>("checkpoint")};
    if (type == "save") return SaveNow{r.get<std::uint64_t>("asked")};
    if (type == "asked") {
        ROLL_TRY(const auto request, read_training_request(r));
        if (!request) return fail(ErrorCode::Corrupt, "command: unknown kind of request");
        return Asked{*request};
    }
    return fail(ErrorCode::Corrupt, "command: unknown type " + type.substr(0, 40));
}

template <class Line>
Result<Line> decode_line(std::string_view line, const char* what,
                         Result<Line> (*read)(const std::string&, const Json&, JsonReader&)) {
    ROLL_TRY(const Json json, parse_json(line));
    JsonReader r(json, what);
    const auto type = r.get<std::string>("t");
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(Line value, read(type, json, r));
    ROLL_TRY_VOID(r.finish_lenient());
    return value;
}

}  // namespace

std::string encode(const Launch& launch) {
    return dump({{"v", kVersion},
                 {"attempt", to_json(launch.attempt)},
                 {"kind", launch.kind},
                 {"document", launch.document},
                 {"output", launch.output},
                 {"logs", launch.logs},
                 {"nodes", launch.nodes},
                 {"node_rank", launch.node_rank},
                 {"ranks_per_node", launch.ranks_per_node},
                 {"gpus", launch.gpus},
                 {"nonce", launch.nonce},
                 {"checkpoints", to_json_list(launch.checkpoints)},
                 {"stop_step", launch.stop_step},
                 {"allow_faults", launch.allow_faults}});
}

Result<Launch> decode_launch(std::string_view text) {
    ROLL_TRY(const Json json, parse_frame(text, "launch"));
    JsonReader r(json, "launch");
    Launch launch;
    launch.kind = r.get<std::string>("kind");
    launch.document = r.get<std::string>("document");
    launch.output = r.get<std::string>("output");
    launch.logs = r.get<std::string>("logs");
    launch.nodes = r.get<int>("nodes");
    launch.node_rank = r.get<int>("node_rank");
    launch.ranks_per_node = r.get<int>("ranks_per_node");
    launch.gpus = r.get<std::vector<int>>("gpus");
    launch.nonce = r.get<std::string>("nonce");
    launch.stop_step = r.get_or<std::int64_t>("stop_step", 0);
    launch.allow_faults = r.get_or("allow_faults", false);
    const Json& attempt = r.raw("attempt");
    const Json& checkpoints = r.raw("checkpoints");
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(launch.attempt, read_attempt_key(attempt, "launch.attempt"));
    ROLL_TRY_VOID(
        read_list(checkpoints, "launch.checkpoints", launch.checkpoints, &read_written_checkpoint));
    return launch;
}

std::string encode(const Report& report) { return dump(report_json(report)); }

Result<Report> decode_report(std::string_view line) {
    return decode_line<Report>(line, "report", &read_report);
}

std::string encode(const Command& command) {
    return std::visit(Overload{[](const RecordedStep& c) {
                                   return dump({{"t", "recorded"}, {"step", c.step}});
                               },
                               [](const StopAtStep& c) {
                                   return dump({{"t", "stop"}, {"checkpoint", c.checkpoint}});
                               },
                               [](const SaveNow& c) {
                                   return dump({{"t", "save"}, {"asked", c.asked}});
                               },
                               [](const Asked& c) {
                                   Json json = to_json(c.request);
                                   json["t"] = "asked";
                                   return dump(json);
                               }},
                      command);
}

Result<Command> decode_command(std::string_view line) {
    return decode_line<Command>(line, "command", &read_command);
}

}  // namespace roll::protocol
