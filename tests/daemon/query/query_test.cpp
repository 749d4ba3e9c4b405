#include "daemon/query/query.hpp"

#include <gtest/gtest.h>

#include "common/spec/schema/array.hpp"
#include "daemon/ledger/event_json.hpp"
#include "tests/daemon/core/desk.hpp"

namespace roll::query {
namespace {

using core::Desk;

spec::JobSpec named(const std::string& name) {
    spec::JobSpec spec = core::wants(1, 1);
    spec.name = name;
    return spec;
}

// Six jobs, of which job 2 has ended.
class Queue : public ::testing::Test {
  protected:
    void SetUp() override {
        for (const char* name : {"kjv-small", "kjv-big", "eval", "3-9", "kjv-small", "last"})
            desk.submit(named(name));
        desk.tell(core::Cancel{JobId{2}, "no"});
    }
    std::string selected(const std::string& selector, const std::string& user = "ann") {
        const auto ids = select(desk.state, selector, user);
        if (!ids) return name_of(ids.error().code);
        std::string text;
        for (const JobId id : *ids) text += (text.empty() ? "" : " ") + std::to_string(id.value);
        return text;
    }
    std::string waits(JobId id) { return waiting(desk.state, id, desk.now); }
    Desk desk;
};

TEST_F(Queue, ASelectorOfTooManyWordsIsRefused) {
    std::string many = "k*";
    for (std::size_t i = 0; i < 1'000'000 / desk.state.jobs.size() + 2; ++i) many += ",k*";
    const auto refused = select(desk.state, many, "ann");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "the selector would look up more than 1,000,000 jobs");
}

TEST_F(Queue, SelectorsNameJobs) {
    const std::vector<std::pair<std::string, std::string>> table = {
        {"3", "3"},
        {"2-4", "2 3 4"},
        {"1,4", "1 4"},
        {"4,1,1", "1 4"},
        {"last", "6"},
        {"all", "1 2 3 4 5 6"},
        {"@me", "1 2 3 4 5 6"},
        {"kjv-*", "1 2 5"},
        {"eval", "3"},
        {"e?al,last", "3 6"},
        {"7", "not_found"},
        {"5-7", "5 6"},
        {"2-18446744073709551615", "2 3 4 5 6"},
        {"7-9", "not_found"},
        {"nobody", "not_found"},
        {"4-2", "invalid_argument"},
        {"", "invalid_argument"},
        {"1,", "invalid_argument"},
        {",", "invalid_argument"}};
    for (const auto& [selector, ids] : table) EXPECT_EQ(selected(selector), ids) << selector;
    EXPECT_EQ(selected("@me", "bob"), "");
}

TEST_F(Queue, SelectorsNameTasksOfAnArray) {
    spec::JobSpec array = named("sweep");
    array.array = spec::Array{.indices = "0-2,7"};
    array.output = "/runs/{index}-{id}";
    array.document = "{}";
    ASSERT_EQ(desk.submit(array), JobId{10}) << "jobs 7 to 10";
    desk.submit(named("7_9x"));
    const std::vector<std::pair<std::string, std::string>> table = {
        {"7_0", "7"},      {"7_7", "10"},           {"7_[0-1]", "7 8"},  {"7_[0,7]", "7 10"},
        {"7[1-2]", "8 9"}, {"7_[2,7],1", "1 9 10"}, {"7", "7"},          {"7_3", "not_found"},
        {"7_9x", "11"},    {"8_0", "not_found"},    {"70", "not_found"}, {"7_[1-", "not_found"}};
    for (const auto& [selector, ids] : table) EXPECT_EQ(selected(selector), ids) << selector;
    const auto missing = select(desk.state, "7_[3-5]", "ann");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().message, "array 7 has no task 3-5");
}

// Jobs of one group share a text. A held job, a job with other resources and a job with a
// dependency have texts of their own.
TEST_F(Queue, APageSaysOfEachJobWhyItWaits) {
    desk.submit(core::wants(3, 2));
    spec::JobSpec held = core::wants(1, 1);
    held.hold = true;
    desk.submit(held);
    spec::JobSpec follows = core::wants(1, 1);
    follows.after = {{spec::After::Condition::Ok, JobId{1}}};
    desk.submit(follows);
    desk.join("node-1", 1);
    const Json page = jobs(desk.state, {.all = true}, {}, desk.now).value();
    ASSERT_EQ(page["jobs"].size(), 9u);
    for (const Json& job : page["jobs"])
        EXPECT_EQ(job["waiting"], waits(JobId{job["id"].get<std::uint64_t>()})) << job["id"];
    EXPECT_EQ(jobs(desk.state, {.all = true, .from = 3, .limit = 2}, {}, desk.now).value()["next"],
              5);
}

// Jobs that rolld queued itself do not count. The tasks of an array and the jobs of a chain count,
// because a person submitted them.
TEST_F(Queue, LastIsTheNewestJobThatAPersonSubmitted) {
    spec::JobSpec exported = named("trains");
    exported.export_document = R"({"convert":{}})";
    exported.array = spec::Array{.indices = "0-1"};
    exported.output = "/runs/{index}-{id}";
    exported.document = "{}";
    const JobId task = desk.submit(exported);
    spec::JobSpec cron = named("nightly");
    cron.cron = "* * * * *";
    cron.output = "/runs/nightly-{id}";
    desk.submit(cron);
    EXPECT_EQ(selected("last"), "9");
    desk.pass(std::chrono::minutes(2));
    EXPECT_EQ(desk.job(JobId{10}).spec.name, "nightly") << "a job of the cron times";
    desk.join("node-1", 8);
    desk.exit(task, core::Outcome::Done);
    EXPECT_EQ(desk.job(JobId{11}).spec.name, "trains-export");
    EXPECT_EQ(selected("last"), "9");
    spec::JobSpec chain = named("a");
    chain.then = {named("b")};
    chain.then[0].output = "/runs/b-{id}";
    chain.document = chain.then[0].document = "{}";
    desk.submit(chain);
    EXPECT_EQ(desk.job(JobId{13}).spec.name, "b");
    EXPECT_EQ(selected("last"), "13");
}

TEST_F(Queue, ASelectorOfAnEmptyQueueIsNotFound) {
    desk.state.jobs.clear();
    EXPECT_EQ(selected("last"), "not_found");
    EXPECT_EQ(selected("all"), "");
}

TEST_F(Queue, JobsAreThoseThatAreNotOverUnlessAskedFor) {
    const auto count = [&](const protocol::JobsArgs& args) {
        const auto reply = jobs(desk.state, args, {}, desk.now);
        EXPECT_TRUE(reply);
        EXPECT_EQ((*reply)["schema"], "roll.jobs/1");
        return (*reply)["jobs"].size();
    };
    EXPECT_EQ(count({}), 5u);
    EXPECT_EQ(count({.all = true}), 6u);
    EXPECT_EQ(count({.selector = "2"}), 1u);
    EXPECT_EQ(count({.state = "cancelled"}), 1u);
    EXPECT_EQ(count({.all = true, .user = "bob"}), 0u);
    const auto wrong = jobs(desk.state, {.state = "asleep"}, {}, desk.now);
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().code, ErrorCode::InvalidArgument);
}

TEST_F(Queue, JobsComeInPages) {
    const auto page = [&](std::uint64_t from) {
        return *jobs(desk.state, {.all = true, .from = from, .limit = 4}, {}, desk.now);
    };
    const Json first = page(0);
    EXPECT_EQ(first["jobs"].size(), 4u);
    EXPECT_EQ(first["next"], 5);
    const Json last = page(5);
    EXPECT_EQ(last["jobs"].size(), 2u);
    EXPECT_EQ(last["jobs"][0]["id"], 5);
    EXPECT_EQ(last["next"], nullptr);
}

TEST_F(Queue, JobsHoldTheFieldsThatWereAskedFor) {
    const protocol::JobsArgs args{.all = true, .fields = {"state", "id", "no-such"}};
    const auto reply = jobs(desk.state, args, {}, desk.now);
    EXPECT_EQ((*reply)["jobs"][1], (Json{{"id", 2}, {"state", "cancelled"}}));
}

TEST_F(Queue, ASummaryHoldsEveryFieldOfTheContract) {
    const Json job = summary(desk.state, JobId{1}, {}, desk.now);
    for (const char* field :
         {"id",       "name",         "kind",       "user",     "state",      "held",
          "priority", "submitted_at", "started_at", "ended_at", "exit_code",  "reason",
          "waiting",  "output",       "attempt",    "nodes",    "source_job", "export_job",
          "after",    "resources",    "progress",   "starts_at"})
        EXPECT_TRUE(job.contains(field)) << field;
    EXPECT_EQ(job["state"], "queued");
    EXPECT_EQ(job["exit_code"], nullptr);
    EXPECT_EQ(summary(desk.state, JobId{2}, {}, desk.now)["state"], "cancelled");
}

TEST_F(Queue, WaitingSaysWhatHoldsAJobBack) {
    EXPECT_EQ(waits(JobId{1}), "no worker is connected");
    EXPECT_EQ(waits(JobId{2}), "");
    desk.tell(core::Hold{JobId{1}, true});
    EXPECT_NE(waits(JobId{1}).find("held"), std::string::npos);
    spec::JobSpec later = named("later");
    later.after = {{spec::After::Condition::Ok, JobId{3}}};
    EXPECT_EQ(waits(desk.submit(later)), "waits for ok:3");
    desk.join("a", 1);
    EXPECT_EQ(waits(JobId{3}), "") << "it runs";
    EXPECT_NE(waits(JobId{4}).find("waits for free resources: needs "), std::string::npos);
    const JobId wide = desk.submit(core::wants(2, 4));
    EXPECT_EQ(waits(wide), "needs 2 nodes with 4 slots each; no connected node has 4 slots");
    desk.exit(JobId{3}, core::Outcome::Infra, 1, "its node fell");
    EXPECT_EQ(waits(JobId{3}), "backs off until " + to_iso8601(desk.job(JobId{3}).not_before) +
                                   ", after attempt 1: its node fell");
}

// Does what explain suggests for each rule, and checks that the job starts.
TEST(Holds, EachRuleNamesWhatLetsTheJobStart) {
    Desk desk;
    desk.join("a", 2);
    const auto rule = [&](JobId id) {
        const auto all = holds(desk.state, id, desk.now);
        EXPECT_TRUE(std::ranges::none_of(all, [](const Hold& h) { return h.remedy.empty(); }));
        return all.empty() ? std::string() : all.front().rule;
    };
    spec::JobSpec begins = named("begins");
    begins.begin = desk.now + std::chrono::hours(1);
    const JobId later = desk.submit(begins);
    EXPECT_EQ(rule(later), "begin");
    desk.tell(core::SetBegin{later, desk.now});
    EXPECT_EQ(rule(later), "");
    spec::JobSpec array = named("array");
    array.array = spec::parse_array("0-1%1").value();
    const JobId second = desk.submit(array);
    const JobId first{second.value - 1};
    EXPECT_EQ(rule(second), "array");
    desk.exit(first, core::Outcome::Done);
    EXPECT_EQ(rule(second), "");
    const JobId more = desk.submit(named("more"));
    EXPECT_EQ(rule(more), "room");
    desk.exit(second, core::Outcome::Infra);
    EXPECT_EQ(rule(more), "");
    EXPECT_EQ(rule(second), "retry");
    desk.exit(more, core::Outcome::Done);
    desk.tell(core::SetBegin{second, desk.now});
    EXPECT_EQ(rule(second), "");
    desk.tell(core::Drain{"a", true});
    const JobId drained = desk.submit(named("drained"));
    EXPECT_EQ(rule(drained), "room");
    EXPECT_EQ(holds(desk.state, drained, desk.now).front().remedy, "rollctl undrain a");
    desk.exit(later, core::Outcome::Done);
    desk.tell(core::Drain{"a", false});
    EXPECT_EQ(rule(drained), "");
}

TEST_F(Queue, ShowTellsOneJobWhole) {
    const WorkerId worker = desk.join("a", 1);
    const AttemptKey key = desk.attempt(JobId{1});
    desk.tell(core::MemberStarted{worker, key});
    desk.tell(core::CheckpointWritten{worker, key, 5, "/c/5"});
    Hearsay hearsay;
    hearsay.told = [](JobId) {
        return std::vector<Told>{
            {"a", R"({"step":5,"ranks":[{"rank":0,"step":5,"own_ms":2}],"memory":7,"cpu_ms":1500,)"
                  R"("memory_curve":{"every_s":2,"mebibytes":[1]}})"},
            {"b", R"({"memory":5,"cpu_ms":2000,"memory_curve":{"every_s":2,"mebibytes":[1]}})"}};
    };
    const auto reply = show(desk.state, {.id = 1}, hearsay, desk.now);
    ASSERT_TRUE(reply);
    const Json& job = (*reply)["job"];
    EXPECT_EQ(job["state"], "running");
    EXPECT_EQ(job["progress"], (Json{{"step", 5}, {"memory", 12}, {"cpu_seconds", 3.5}}));
    EXPECT_EQ(job["memory"][1]["node"], "b");
    EXPECT_EQ(job["ranks"][0]["node"], "a");
    EXPECT_EQ(job["attempts"][0]["token"], "1-1");
    EXPECT_EQ(job["checkpoints"][0]["directory"], "/c/5");
    EXPECT_EQ(job["nodes"], Json::array({"a"}));
    const auto none = show(desk.state, {.id = 77}, {}, desk.now);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ErrorCode::NotFound);
    EXPECT_FALSE(show(desk.state, {.id = "1-3"}, {}, desk.now));
    EXPECT_FALSE(show(desk.state, {.id = nullptr}, {}, desk.now));
}

TEST_F(Queue, NodesTellWhatIsFreeAndWhenTheyWereHeard) {
    const WorkerId worker = desk.join("a", 3, 2);
    Hearsay hearsay;
    hearsay.workers[worker] = {120, "cgroup v1", "cgroup", "host a, process 7"};
    desk.state.workers.at(worker).memory = 1 << 30;
    const Json node = nodes(desk.state, hearsay)["nodes"][0];
    EXPECT_EQ(node["node"], "a");
    EXPECT_EQ(node["slots"], 3);
    EXPECT_EQ(node["slots_free"], 0);
    EXPECT_EQ(node["gpus_free"], 2);
    EXPECT_EQ(node["jobs"].size(), 3u);
    EXPECT_EQ(node["heard_ms_ago"], 120);
    EXPECT_EQ(node["wall"], "cgroup");
    EXPECT_EQ(node["limits"], "cgroup v1");
    EXPECT_EQ(node["process"], "host a, process 7");
    EXPECT_EQ(node["memory_free"], 1 << 30);
    EXPECT_EQ(nodes(desk.state, {})["nodes"][0]["heard_ms_ago"], nullptr);
    EXPECT_EQ(node["silent"], false);
    desk.tell(core::WorkerHeard{WorkerId{1}, false});
    EXPECT_EQ(nodes(desk.state, {})["nodes"][0]["silent"], true);
}

TEST_F(Queue, OfManyNodesSomeAreToldAndWhatAllHave) {
    for (int i = 0; i < 20; ++i) desk.join("n" + std::to_string(i), 3, 2);
    const Json told = nodes(desk.state, {}, 4);
    EXPECT_EQ(told["nodes"].size(), 4u);
    EXPECT_EQ(told["all"], Json::parse(R"({"nodes": 20, "slots": 60, "slots_free": 55, "gpus": 40,
                                          "gpus_free": 40})"));
    EXPECT_EQ(nodes(desk.state, {})["nodes"].size(), 20u);
}

TEST_F(Queue, EventsNameTheNodeThatIsSilent) {
    const auto told = [&](const std::string& body) {
        const core::Row row{.seq = 1, .kind = "worker_quiet", .body = body};
        return events(desk.state, {&row, 1}, 0)["events"][0]["text"];
    };
    desk.join("n2", 1);
    EXPECT_EQ(told(R"({"worker": 1, "quiet": true})"), "node n2 is silent");
    EXPECT_EQ(told(R"({"worker": 1, "quiet": false})"), "node n2 sends heartbeats again");
    EXPECT_EQ(told(R"({"worker": 5, "quiet": true})"), "worker 5 is silent") << "it is gone";
}

// The events are read after the worker is lost, when the state holds no worker any more.
TEST_F(Queue, EventsOfAWorkerNameItsNode) {
    core::Events all;
    const auto tell = [&](const core::Input& input) {
        std::ranges::copy(desk.tell(input), std::back_inserter(all));
    };
    const WorkerId worker = desk.join("n2", 0);
    tell(core::WorkerHeard{worker, false});
    tell(core::WorkerHeard{worker, true});
    tell(core::Drain{"n2", true, "ann"});
    tell(core::Drain{"n2", false, "bob"});
    tell(core::WorkerGone{worker, "silent for 60 s"});
    std::vector<std::string> told;
    for (const core::Event& event : all) {
        const core::Row row{.kind = ledger::kind_of(event), .body = ledger::body_of(event)};
        const Json shown = events(desk.state, {&row, 1}, 0)["events"][0];
        told.push_back(shown["text"].get<std::string>());
        EXPECT_EQ(shown["data"]["node"], "n2") << told.back();
    }
    EXPECT_EQ(told, (std::vector<std::string>{"node n2 is silent", "node n2 sends heartbeats again",
                                              "node n2 drained by ann", "node n2 undrained by bob",
                                              "lost the worker of node n2: silent for 60 s"}));
}

TEST_F(Queue, APriorityThatPutsJobsFirst) {
    const auto before = [&](std::vector<JobId> ids) { return priority_before(desk.state, ids); };
    const auto set = [&](JobId id, int to) { desk.tell(core::SetPriority{id, to}); };
    EXPECT_EQ(before({JobId{6}}), 1);
    set(JobId{1}, 40);
    EXPECT_EQ(before({JobId{5}, JobId{6}}), 41);
    EXPECT_EQ(before({JobId{1}}), 40) << "it is first";
    set(JobId{6}, 41);
    desk.join("a", 1);
    EXPECT_EQ(before({JobId{5}}), 41) << "6 runs";
    set(JobId{1}, std::numeric_limits<int>::max());
    EXPECT_EQ(before({JobId{5}}), std::numeric_limits<int>::max());
}

}  // namespace
}  // namespace roll::query
