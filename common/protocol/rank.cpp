#include "common/protocol/rank.hpp"

#include "common/protocol/field_lists.hpp"
#include "common/protocol/progress.hpp"

namespace roll::protocol {

// clang-format off
template <class V, Like<Launch> T> void fields(V& v, T& l) {
    v("attempt", l.attempt); v("kind", l.kind); v("document", l.document); v("output", l.output);
    v("logs", l.logs); v("nodes", l.nodes); v("node_rank", l.node_rank); v("ranks_per_node", l.ranks_per_node);
    v("gpus", l.gpus); v("nonce", l.nonce); v("checkpoints", l.checkpoints);
    v.optional("stop_step", l.stop_step); v.optional("allow_faults", l.allow_faults);
}
template <class V, Like<Ready> T> void fields(V&, T&) {}
template <class V, Like<StepDone> T> void fields(V& v, T& s) { v("step", s.step); v("steps", s.steps); v("own_ms", s.own_ms); }
template <class V, Like<CheckpointStaged> T> void fields(V& v, T& c) {
    v("step", c.step); v("directory", c.directory); v.added("asked", c.asked); v.added("save_ms", c.save_ms);
}
template <class V, Like<CheckpointPruned> T> void fields(V& v, T& c) { v("step", c.step); v("writer", c.writer); }
template <class V, Like<ExportDone> T> void fields(V& v, T& e) { v("directory", e.directory); }
template <class V, Like<CheckpointExported> T> void fields(V& v, T& e) { fields(v, e.written); }
template <class V, Like<Answered> T> void fields(V& v, T& a) { fields(v, a.answer); }
template <class V, Like<Failed> T> void fields(V& v, T& f) { v("message", f.message); }
template <class V, Like<RecordedStep> T> void fields(V& v, T& c) { v("step", c.step); }
template <class V, Like<StopAtStep> T> void fields(V& v, T& c) { v("checkpoint", c.checkpoint); }
template <class V, Like<SaveNow> T> void fields(V& v, T& c) { v("asked", c.asked); }
template <class V, Like<Asked> T> void fields(V& v, T& c) { fields(v, c.request); }
// clang-format on
static void fields(ObjectWriter& v, const Progress& progress) {
    const Json json = Json::parse(progress.json, nullptr, false);
    v("p", json.is_object() ? json : Json::object());
}
static void fields(ObjectReader& v, Progress& progress) {
    Json told = v.raw("p");
    if (told.is_object()) told.erase("ranks");  // only roll-worker may set this key
    progress.json = dump(told);
    if (const auto read = read_progress(progress.json, kProgressBytesMax); !read)
        v.refuse(read.error().message);
}

namespace {

// The types of the messages, in the order of the alternatives of Report and of Command.
constexpr std::array kReports = {"ready",  "progress", "step",     "checkpoint", "pruned",
                                 "export", "exported", "answered", "failed"};
constexpr std::array kCommands = {"recorded", "stop", "save", "asked"};

template <class Line, std::size_t N>
std::string encode_line(const Line& line, const std::array<const char*, N>& types) {
    static_assert(N == std::variant_size_v<Line>);
    ObjectWriter writer;
    std::visit([&](const auto& message) { fields(writer, message); }, line);
    return writer.text.add("t", types[line.index()]).text();
}

// Reads the message that is alternative `type` of Line. Requires that `type` is at least I.
template <class Line, std::size_t I = 0>
Result<Line> read_line(const Json& json, const char* what, std::size_t type) {
    if constexpr (I + 1 < std::variant_size_v<Line>) {
        if (type != I) return read_line<Line, I + 1>(json, what, type);
    }
    std::variant_alternative_t<I, Line> message;
    ROLL_TRY_VOID(read_value(json, what, message));
    return Line(std::move(message));
}

template <class Line, std::size_t N>
Result<Line> decode_line(std::string_view line, const char* what,
                         const std::array<const char*, N>& types) {
    ROLL_TRY(const Json json, parse_json(line));
    JsonReader reader(json, what);
    const auto name = reader.get<std::string>("t");
    ROLL_TRY_VOID(reader.finish_lenient());
    if (const auto type = find_name<std::size_t>(types, name))
        return read_line<Line>(json, what, *type);
    return fail(ErrorCode::Corrupt, std::string(what) + ": unknown type " + name.substr(0, 40));
}

}  // namespace

std::string encode(const Launch& launch) {
    ObjectWriter writer;
    fields(writer, launch);
    return writer.text.add("v", kVersion).text();
}

Result<Launch> decode_launch(std::string_view text) { return decode_frame<Launch>(text, "launch"); }

std::string encode(const Report& report) { return encode_line(report, kReports); }

Result<Report> decode_report(std::string_view line) {
    return decode_line<Report>(line, "report", kReports);
}

std::string encode(const Command& command) { return encode_line(command, kCommands); }

Result<Command> decode_command(std::string_view line) {
    return decode_line<Command>(line, "command", kCommands);
}

}  // namespace roll::protocol
