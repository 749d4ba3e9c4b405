#include <gtest/gtest.h>

#include "common/json.hpp"
#include "common/protocol/terminal.hpp"
#include "tests/common/protocol/samples.hpp"

namespace roll::protocol {
namespace {

// Encodes, decodes and encodes again. Equal texts show that the codec handles every field.
template <class T, class Decode>
void round_trip(const T& value, Decode decode) {
    const std::string frame = encode(value);
    const auto decoded = decode(frame);
    ASSERT_TRUE(decoded) << decoded.error().message << "\n" << frame;
    EXPECT_EQ(encode(*decoded), frame);
}

TEST(Codecs, EveryFieldComesBack) {
    round_trip(sample_heartbeat(), decode_heartbeat);
    round_trip(sample_answer(), decode_answer);
    round_trip(sample_launch(), decode_launch);
    round_trip(Request{7, "submit", {{"key", "k"}}}, decode_request);
    for (const Report& report :
         std::vector<Report>{Ready{}, Progress{R"({"step":1})"}, CheckpointStaged{3, "/d"},
                             CheckpointPruned{3, Token{1, 2}}, ExportDone{"/e"}, Failed{"no"},
                             CheckpointExported{{20, "/export/hf-step-00000020", 10}},
                             Answered{{.number = 2, .step = 7, .stop_step = 9, .text = "x"}}})
        round_trip(report, decode_report);
    for (const Command& command : std::vector<Command>{
             RecordedStep{3}, StopAtStep{false}, SaveNow{2}, Asked{{2, RequestKind::LogEvery, 10}}})
        round_trip(command, decode_command);
}

TEST(Codecs, TerminalMessagesComeBackAndAreNoHeartbeatsOrAnswers) {
    std::string bytes;
    for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
    for (std::size_t size = 0; size < 5; ++size) {
        const TerminalOrder order{
            .terminal = 9,
            .attempt = {JobId{7}, Token{3, 1}},
            .start = TerminalStart{1, {"sh", "-c", "x y"}, true, "xterm", true},
            .limit = 5,
            .at = 6,
            .input = bytes.substr(0, 252 + size),
            .end_of_input = true,
            .close = true,
            .rows = 24,
            .columns = 80};
        const TerminalNews news{.terminal = 9,
                                .at = 4,
                                .output = order.input,
                                .errors = true,
                                .taken = 8,
                                .exit = 0,
                                .trouble = "none"};
        EXPECT_EQ(decode_terminal_order(encode(order)), order);
        EXPECT_EQ(decode_terminal_news(encode(news)), news);
        EXPECT_FALSE(decode_heartbeat(encode(news)));
        EXPECT_FALSE(decode_answer(encode(order)));
        EXPECT_FALSE(decode_terminal_news(encode(news).substr(1)));
    }
    EXPECT_FALSE(decode_terminal_news(R"(terminal {"id":1,"at":0,"taken":0,"output":"$"})"));
}

TEST(Codecs, TheSamplesHoldWhatTheyShould) {
    const auto heartbeat = decode_heartbeat(encode(sample_heartbeat()));
    ASSERT_TRUE(heartbeat);
    EXPECT_EQ(heartbeat->sequence, 18446744073709551615u);
    ASSERT_EQ(heartbeat->running.size(), 2u);
    EXPECT_EQ(heartbeat->running[0].exit_code, 137);
    EXPECT_EQ(heartbeat->running[0].usage, (Usage{1234, 5678, 90, 12, 4096, 512}));
    EXPECT_EQ(heartbeat->running[0].checkpoints[1].writer, (Token{2, 1}));
    const auto answer = decode_answer(encode(sample_answer()));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->start.at(0).slots, (std::vector<int>{0, 3}));
    EXPECT_EQ(answer->recorded.at(0).steps, (std::vector<std::int64_t>{5, 10}));
}

// Decodes frames in which one field is missing or has a wrong type.
template <class Decode>
void is_strict(const std::string& frame, const std::set<std::string>& optional, Decode decode) {
    const Json whole = *parse_json(frame);
    for (const auto& [name, value] : whole.items()) {
        Json less = whole;
        less.erase(name);
        EXPECT_EQ(decode(less.dump()).has_value(), optional.contains(name)) << name;
        Json other = whole;
        other[name] = 1.5;
        EXPECT_FALSE(decode(other.dump())) << name;
        other[name] = Json::array({Json::object()});
        EXPECT_FALSE(decode(other.dump())) << name;
    }
}

TEST(Codecs, AMissingFieldOrAWrongTypeIsRefused) {
    is_strict(encode(sample_heartbeat()),
              {"pilot", "generation", "beat_ms", "segment", "gpu_numa", "features", "home",
               "process", "memory", "cpus", "limits"},
              decode_heartbeat);
    is_strict(encode(sample_answer()), {"save", "tell", "refused", "keep_asking"}, decode_answer);
    is_strict(encode(sample_launch()), {"allow_faults", "stop_step"}, decode_launch);
    is_strict(encode(Request{7, "x", Json::object()}), {"args"}, decode_request);
}

// A newer rolld may send requests that this worker does not know; the rest of its answer counts.
TEST(Codecs, ARequestOfANewerReleaseIsLeftOut) {
    Json json = *parse_json(encode(sample_answer()));
    json["tell"].push_back(json["tell"][0]);
    json["tell"][0]["what"] = "dance";
    EXPECT_EQ(decode_answer(json.dump())->tell, sample_answer().tell);
    json["tell"][0].erase("what");
    EXPECT_FALSE(decode_answer(json.dump()));
}

TEST(Codecs, NumbersThatDoNotFitAreRefused) {
    Json json = *parse_json(encode(sample_heartbeat()));
    for (const Json& slots :
         {Json(-1), Json(4097), Json(4294967296), Json(1e300), Json(true), Json("4")}) {
        json["slots"] = slots;
        EXPECT_FALSE(decode_heartbeat(json.dump())) << slots;
    }
    for (const char* field :
         {"cpu_ms", "memory_peak", "wall_ms", "gpu_ms", "disk_read", "disk_written"}) {
        for (const Json& value : {Json(-1), Json(std::int64_t{1} << 60), Json("4")}) {
            json = *parse_json(encode(sample_heartbeat()));
            json["running"][0]["usage"][field] = value;
            EXPECT_FALSE(decode_heartbeat(json.dump())) << field << " " << value;
        }
    }
    json = *parse_json(encode(sample_heartbeat()));
    json["memory"] = std::int64_t{1} << 51;
    EXPECT_FALSE(decode_heartbeat(json.dump()));
}

// Any program may write to the descriptor for reports, so progress must be validated.
TEST(Codecs, ProgressHasABoundedShapeOrIsNone) {
    const auto told = [](const std::string& progress) {
        const auto report = decode_report(R"({"t":"progress","p":)" + progress + "}");
        return report ? std::get<Progress>(*report).json : "none";
    };
    EXPECT_EQ(told(R"({"ranks":8,"step":1})"), R"({"step":1})") << "ranks are roll-worker's";
    for (const std::string& progress :
         {std::string("8"), std::string("[1]"), R"({"a":")" + std::string(5000, 'x') + "\"}",
          R"({"a":)" + std::string(20, '[') + std::string(20, ']') + "}"})
        EXPECT_EQ(told(progress), "none");
}

TEST(Codecs, WhatANewerPeerSaysBesidesIsIgnored) {
    Json json = *parse_json(encode(sample_heartbeat()));
    json["mood"] = "fine";
    json["running"][0]["colour"] = {1, 2};
    EXPECT_TRUE(decode_heartbeat(json.dump()));
}

TEST(Codecs, AnotherVersionIsRefusedByName) {
    Json json = *parse_json(encode(sample_heartbeat()));
    json["v"] = kVersion + 1;
    const auto decoded = decode_heartbeat(json.dump());
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, ErrorCode::Refused);
    EXPECT_NE(decoded.error().message.find("version " + std::to_string(kVersion + 1)),
              std::string::npos);
}

TEST(Codecs, AnUnknownPhaseOrOutcomeIsRefused) {
    const Json known = Json::parse(encode(sample_heartbeat()));
    ASSERT_TRUE(decode_heartbeat(known.dump()));
    Json unknown = known;
    unknown["running"][1]["phase"] = "dancing";
    EXPECT_FALSE(decode_heartbeat(unknown.dump()));
    unknown = known;
    unknown["running"][0]["outcome"] = "";
    EXPECT_FALSE(decode_heartbeat(unknown.dump()));
}

TEST(Codecs, BytesThatAreNoTextStillTravel) {
    Heartbeat heartbeat = sample_heartbeat();
    heartbeat.running[0].reason = "core \xff\xfe dumped";
    const auto decoded = decode_heartbeat(encode(heartbeat));
    ASSERT_TRUE(decoded);
    EXPECT_NE(decoded->running[0].reason.find("dumped"), std::string::npos);
}

TEST(Codecs, AHeartbeatThatSaysTheSameAgainIsKnownByItsText) {
    Heartbeat heartbeat;
    heartbeat.session = "s";
    heartbeat.node = "a";
    heartbeat.sequence = 9;
    const std::string before = encode(heartbeat);
    heartbeat.sequence = 10;
    EXPECT_EQ(repeated(before, encode(heartbeat)), 10u);
    EXPECT_EQ(repeated(before, encode(heartbeat) + " "), std::nullopt);
    heartbeat.draining = true;  // a field before the sequence number
    EXPECT_EQ(repeated(before, encode(heartbeat)), std::nullopt);
    heartbeat.draining = false;
    heartbeat.slots = 3;  // a field after the sequence number
    EXPECT_EQ(repeated(before, encode(heartbeat)), std::nullopt);
    EXPECT_EQ(repeated("", before), std::nullopt);
    const std::string twice = R"({"running":[{"sequence":1}],"sequence":2})";
    EXPECT_EQ(repeated(twice, twice), std::nullopt);
}

TEST(Replies, CarryAValueOrAnError) {
    const auto ok = decode_reply(encode_reply(7, Json{{"a", 1}}), 7);
    ASSERT_TRUE(ok);
    EXPECT_EQ((*ok)["a"], 1);
    const Error error{ErrorCode::NotFound, "there is no job 7", "rollctl jobs -a"};
    const auto refused = decode_reply(encode_reply(7, error), 7);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::NotFound);
    EXPECT_EQ(refused.error().message, error.message);
    EXPECT_EQ(refused.error().hint, error.hint);
    EXPECT_FALSE(decode_reply(encode_reply(7, Json{{"a", 1}}), 8));
}

TEST(Requests, TheIdOfARefusedOneIsFoundIfThereIsOne) {
    EXPECT_EQ(request_id(R"({"id":7,"op":3})"), 7u);
    EXPECT_EQ(request_id(R"({"id":-7})"), 0u);
    EXPECT_EQ(request_id(R"({"args":{"id":3,"all":[{"id":4}]},"id":7})"), 7u);
    EXPECT_EQ(request_id(R"({"args":{"id":3}})"), 0u);
    EXPECT_EQ(request_id("not json"), 0u);
    EXPECT_EQ(request_id("[]"), 0u);
}

}  // namespace
}  // namespace roll::protocol
