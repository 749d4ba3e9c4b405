// Tests submissions in which one value at a time has a wrong type. They pass through all steps up
// to the worker. No step may throw.
#include <fstream>

#include <gtest/gtest.h>

#include "common/spec/check/check_job.hpp"
#include "common/spec/check/submission.hpp"
#include "common/spec/job/job_json.hpp"
#include "daemon/dispatch/dispatch.hpp"
#include "daemon/query/query.hpp"
#include "tests/daemon/core/desk.hpp"
#include "worker/agent/process/launch.hpp"

namespace roll::dispatch {
namespace {

using core::Desk;
using core::Outcome;

// Returns submissions of whole job files, as rollctl makes them.
std::vector<Json> submissions() {
    const char* const files[] = {
        R"({"name": "c", "kind": "command", "command": ["sh"], "script": "#!/bin/sh -e\nls\n",
            "resources": {"slots_per_node": 64, "variants": [{"slots_per_node": 1}]},
            "env": {"A": "b"}, "check": {"command": ["true"], "timeout": "9s"}, "log_size": "1MB",
            "retry": {"on_exit": {"7": {"then": "stop", "label": "l"}, "8": "retry"},
                      "on_log": [{"match": "oom", "then": "avoid_node", "label": "m"}]},
            "then": [{"name": "d", "kind": "command", "command": ["{c.output}", "{c.id}"]}]})",
        R"({"name": "a", "kind": "command", "command": ["x", "{index}"], "array": "0-2%1",
            "check": "builtin", "begin": "2026-11-22", "deadline": "2046-11-22"})",
        R"({"name": "k", "kind": "convert", "convert": {"source": "/", "target": "/t"},
            "then": [{"name": "m", "kind": "command", "command": ["{previous.result}"]}]})",
        R"({"name": "t", "kind": "train", "log_files": "node", "hang_after": "9s",
            "model": {"family": "llama", "hidden_size": 64, "num_hidden_layers": 2,
                      "num_attention_heads": 4, "intermediate_size": 64},
            "data": {"train": ["malformed.txt"]}, "resources": {"slots_per_node": 2},
            "train": {"seq_length": 8, "global_batch_size": 2, "micro_batch_size": 1, "steps": 1},
            "then": [{"name": "u", "kind": "command", "command": ["{previous.result}"]}]})"};
    std::ofstream(testing::TempDir() + "malformed.txt") << "text\n";
    std::vector<Json> all;
    for (const char* const file : files) {
        const spec::ParsedJob job = spec::check_job(Json::parse(file), testing::TempDir());
        EXPECT_TRUE(job.ok()) << job.problems.front().path << " " << job.problems.front().message;
        all.push_back(Json::parse(spec::to_json(job.spec)));
    }
    return all;
}

std::vector<Json> others() {
    Json deep = "x";
    for (int i = 0; i < 200; ++i) deep = Json::array({deep});
    return {Json(),
            true,
            7,
            -1,
            std::numeric_limits<std::int64_t>::max(),
            1.5,
            "x",
            "",
            Json::array(),
            Json::object(),
            Json::array({1}),
            Json::array({"x"}),
            Json{{"then", 1}},
            deep};
}

// Submits the job and lets it run on a large worker, if the core accepts it.
void take_all_the_way(const spec::JobSpec& spec) {
    Desk desk;
    desk.careful = false;
    const core::Submit submit{"k", "ann", spec};
    if (!core::decide(desk.state, submit, desk.now)) return;
    desk.tell(submit);
    desk.join("a", 4096, 64);
    for (int turns = 0; turns < 4; ++turns) {
        for (const auto& [worker, answer] : orders(desk.state, core::actions(desk.state), "c")) {
            for (const auto& order : answer.start)
                if (order.refused.empty()) static_cast<void>(agent::plan_launch(order, {}));
        }
        for (const auto& [id, job] : desk.state.jobs)
            ASSERT_TRUE(query::show(desk.state, {.id = id.value}, {}, desk.now));
        const std::set<JobId> running = desk.state.index.running;
        for (const JobId id : running) desk.exit(id, Outcome::Done);
    }
}

void take(const Json& submission) {
    const auto spec = spec::job_spec_of(submission);
    if (!spec) return;
    static_cast<void>(spec::check_submission(*spec));
    // also submit without the check, because a ledger may contain such a job
    take_all_the_way(*spec);
}

// Calls visit(pointer) for every value inside `value`.
template <class Visit>
void each_path(const Json& value, const Json::json_pointer& at, const Visit& visit) {
    if (!at.empty()) visit(at);
    if (value.is_object())
        for (const auto& [key, inner] : value.items()) each_path(inner, at / key, visit);
    if (value.is_array())
        for (std::size_t i = 0; i < value.size(); ++i) each_path(value[i], at / i, visit);
}

TEST(Malformed, AnyValueMayBeOfAnyType) {
    for (const Json& submission : submissions()) {
        ASSERT_TRUE(spec::check_submission(*spec::job_spec_of(submission)));
        take(submission);
        each_path(submission, Json::json_pointer(), [&](const Json::json_pointer& at) {
            for (const Json& other : others()) {
                Json changed = submission;
                changed[at] = other;
                take(changed);
            }
        });
    }
}

TEST(Malformed, SoMayWhatTheDocumentSays) {
    for (const Json& submission : submissions()) {
        const Json document = Json::parse(submission["document"].get<std::string>());
        const auto with = [&](const std::string& text) {
            Json changed = submission;
            changed["document"] = text;
            for (Json& next : changed["then"]) next["document"] = text;
            take(changed);
            changed = submission;
            changed["export_document"] = text;
            take(changed);
        };
        for (const std::string text : {"", "{", "[]", "{}", "8"}) with(text);
        with(std::string(200'000, '['));
        with(R"({"a": )" + std::string(200'000, '[') + std::string(200'000, ']') + "}");
        each_path(document, Json::json_pointer(), [&](const Json::json_pointer& at) {
            for (const Json& other : others()) {
                Json changed = document;
                changed[at] = other;
                with(changed.dump());
            }
        });
    }
}

TEST(Malformed, ADocumentThatRolldRelysOnIsRefusedInOneSentence) {
    spec::JobSpec spec = core::wants(1, 1);
    const auto refusal = [&](const std::string& document) {
        spec.document = document;
        const auto checked = spec::check_submission(spec);
        return checked ? "none" : checked.error().message;
    };
    EXPECT_EQ(refusal("{}"), "none");
    EXPECT_EQ(refusal("[]"), "the job's document is not a JSON object");
    EXPECT_EQ(refusal("{"), "the job's document: invalid JSON at byte 2");
    EXPECT_EQ(refusal(std::string(91, '[')),
              "the job's document: JSON nests deeper than 90 levels");
    spec.variants = {spec.resources};
    EXPECT_EQ(refusal("{}"),
              "the job's document is damaged: its `variants` do not match the variants in the "
              "job's specification");
}

// A ledger may contain such a job. rolld starts with it, and the job fails with a reason.
TEST(Malformed, AnAttemptWithoutItsVariantsIsRefusedByTheWorker) {
    Desk desk;
    desk.join("a", 2);
    spec::JobSpec spec = core::wants(1, 1);
    spec.variants = {spec.resources};
    spec.document = "{}";
    desk.submit(spec);
    const auto all = orders(desk.state, core::actions(desk.state), "c");
    EXPECT_EQ(all.begin()->second.start.at(0).refused,
              "the job's document is damaged: its `variants` do not match the variants in the "
              "job's specification");
}

}  // namespace
}  // namespace roll::dispatch
