#include "common/spec/job/sweep.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "common/spec/check/check_job.hpp"
#include "common/spec/check/submission.hpp"
#include "common/spec/job/array_tasks.hpp"
#include "common/spec/schema/array.hpp"

namespace roll::spec {
namespace {

const char* const kJob = R"({"name": "s", "kind": "command", "command": ["true"], "sweep": {}})";

ParsedJob parse_with(const Json& sweep, const Json& more = Json::object()) {
    Json job = Json::parse(kJob);
    job["sweep"] = sweep;
    job.update(more);
    return check_job(job, "/tmp");
}

std::vector<Json> trials_of(const ParsedJob& job) {
    EXPECT_TRUE(job.ok()) << (job.ok() ? "" : job.problems[0].path + job.problems[0].message);
    const auto indices = array_indices(job.spec.array->indices);
    std::vector<Json> documents;
    for (const JobSpec& task : array_tasks(job.spec, *indices))
        documents.push_back(Json::parse(task.document.text()));
    return documents;
}

TEST(Sweep, GridHasEveryCombination) {
    const ParsedJob job =
        parse_with({{"grid", {{"env.A", {1, 2}}, {"env.B", {"x", "y", "z"}}}}, {"at_once", 2}});
    const std::vector<Json> trials = trials_of(job);
    ASSERT_EQ(trials.size(), 6u);
    EXPECT_EQ(job.spec.array->limit, 2);
    EXPECT_EQ(trials[0]["env"]["A"], 1);
    EXPECT_EQ(trials[0]["env"]["B"], "x");
    EXPECT_EQ(trials[1]["env"]["B"], "y");
    EXPECT_EQ(trials[5]["env"]["A"], 2);
    EXPECT_EQ(trials[5]["env"]["B"], "z");
    EXPECT_EQ(trials[4]["sweep"]["trial"], 4);
    EXPECT_EQ(trials[4]["sweep"]["parameters"], (Json{{"env.A", 2}, {"env.B", "y"}}));
    EXPECT_EQ(trials[0]["sweep"]["trials"].size(), 6u);
    EXPECT_FALSE(trials[1]["sweep"].contains("trials"));
    EXPECT_EQ(trials[3]["env"]["ROLL_ARRAY_INDEX"], "3");
}

TEST(Sweep, RandomValuesDependOnSeedTrialAndKeyAlone) {
    const auto draw = [](int trials, int seed, bool more) {
        Json keys = {{"env.LR", {{"log_uniform", {1e-5, 1e-1}}}}};
        if (more) keys["env.B"] = {{"choice", {"a", "b"}}};
        return trials_of(
            parse_with({{"random", {{"trials", trials}, {"seed", seed}, {"parameters", keys}}}}));
    };
    const auto few = draw(4, 7, false), many = draw(64, 7, true), other = draw(4, 8, false);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(few[i]["env"]["LR"], many[i]["env"]["LR"]);
    EXPECT_NE(few[0]["env"]["LR"], other[0]["env"]["LR"]);
    int small = 0, of_a = 0;
    for (const Json& trial : many) {
        const double lr = trial["env"]["LR"];
        EXPECT_GE(lr, 1e-5);
        EXPECT_LE(lr, 1e-1);
        small += lr < 1e-3 ? 1 : 0;
        of_a += trial["env"]["B"] == "a" ? 1 : 0;
    }
    // Half of the decades, and half of the choices; 64 draws leave 3 standard deviations of 4.
    EXPECT_NEAR(small, 32, 12);
    EXPECT_NEAR(of_a, 32, 12);
}

TEST(Sweep, NamesTheTrialOfAProblem) {
    const ParsedJob job = parse_with({{"grid", {{"env.A", {1, Json::array()}}}}});
    ASSERT_FALSE(job.ok());
    EXPECT_EQ(job.problems[0].path, "env.A");
    EXPECT_NE(job.problems[0].message.find("(trial 1: env.A=[])"), std::string::npos)
        << job.problems[0].message;
}

TEST(Sweep, RefusesWhatIsNone) {
    const auto problem = [](const Json& sweep, const Json& more = Json::object()) {
        const ParsedJob job = parse_with(sweep, more);
        return job.ok() ? "" : job.problems[0].path + " " + job.problems[0].message;
    };
    const Json grid = {{"env.A", {1, 2}}};
    for (const auto& [sweep, more, text] : std::vector<std::tuple<Json, Json, std::string>>{
             {{{"grid", grid}, {"list", {{{"env.A", 1}}}}}, Json::object(), "exactly one of"},
             {{{"metric", "loss"}}, Json::object(), "exactly one of"},
             {{{"grid", Json::object()}}, Json::object(), "describes no trial"},
             {{{"grid", grid}}, {{"array", "0-3"}}, "array cannot be used with `sweep`"},
             {{{"grid", {{"resources.nodes", {1, 2}}}}}, Json::object(), "scheduler reads"},
             {{{"grid", {{"name.x", {1}}}}}, Json::object(), "has the key name.x; no part"},
             {{{"grid", {{"env..x", {1}}}}}, Json::object(), "has the key env..x; no part"},
             {{{"list", {{{"env.A", 1}}, {{"env.B", 1}}}}}, Json::object(), "the same keys"},
             {{{"random", {{"trials", 2}, {"parameters", {{"env.A", {{"log_uniform", {0, 1}}}}}}}}},
              Json::object(),
              "LOW > 0"},
             {{{"grid", grid}, {"halving", Json::object()}}, Json::object(), "min_steps"}}) {
        EXPECT_NE(problem(sweep, more).find(text), std::string::npos) << problem(sweep, more);
    }
    Json large = {{"grid", {{"env.A", Json::array()}, {"env.B", Json::array()}}}};
    for (int i = 0; i < 32; ++i) large["grid"]["env.A"].push_back(i);
    large["grid"]["env.B"] = large["grid"]["env.A"];
    EXPECT_NE(problem(large).find("1024 trials; allowed: at most 1000"), std::string::npos);
}

TEST(Sweep, ThatIsNoMappingIsTold) {
    const ParsedJob job = parse_with(Json::array());
    ASSERT_EQ(job.problems.size(), 1u);
    EXPECT_EQ(sentence(job.problems[0]), "sweep is []; allowed: a mapping");
}

TEST(Sweep, RefusesADamagedListOfTrials) {
    ParsedJob job = parse_with({{"grid", {{"env.A", {1, 2}}}}});
    EXPECT_TRUE(check_submission(job.spec).has_value());
    Json document = Json::parse(job.spec.document.text());
    for (const Json& trials :
         {Json(), Json(7), Json{1, 2}, Json{{{"env.A", 1}}}, Json{{{"env.A", 1}}, {{"name.x", 1}}},
          Json::parse(R"([{"sweep": 5}])"), Json::parse(R"([{"sweep.trial": 5}])")}) {
        document["sweep"]["trials"] = trials;
        job.spec.document = document.dump();
        EXPECT_FALSE(check_submission(job.spec).has_value()) << trials;
    }
}

TEST(Halving, StopsOnlyTrialsThatCannotBeAmongTheBest) {
    const Halving halving{"loss", false, 3, 10};
    const auto at = rungs(halving, 9, 300);
    EXPECT_EQ(at, (std::vector<std::int64_t>{10, 30}));
    EXPECT_EQ(rungs(halving, 9, 30), (std::vector<std::int64_t>{10}));
    EXPECT_EQ(rungs(halving, 27, std::nullopt), (std::vector<std::int64_t>{10, 30, 90}));
    // Three of nine go on from step 10: as long as only three have a value there, none is stopped.
    std::vector<RungValues> values(9, RungValues(2));
    values[4][0] = 5;
    values[1][0] = 4;
    values[8][0] = 3;
    EXPECT_TRUE(losers(halving, at, values).empty());
    values[2][0] = 4.5;
    EXPECT_EQ(losers(halving, at, values), (std::vector<Stop>{{4, 10, 5, 4, 3}}));
    // The first at step 30 is the only one that goes on from there.
    values[8][1] = 2.9;
    values[2][1] = 2.8;
    EXPECT_EQ(losers(halving, at, values),
              (std::vector<Stop>{{4, 10, 5, 4, 3}, {8, 30, 2.9, 2, 1}}));
}

TEST(Halving, PutsValuesThatAreNotFiniteLast) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const std::vector<RungValues> values = {{nan}, {1.0}, {1.0}};
    EXPECT_EQ(losers({"loss", false, 2, 10}, {10}, values)[0].trial, 0u);
    EXPECT_EQ(losers({"loss", true, 2, 10}, {10}, values)[0].trial, 0u);
    EXPECT_EQ(losers({"loss", true, 2, 10}, {10}, {{1.0}, {2.0}}),
              (std::vector<Stop>{{0, 10, 1.0, 2, 1}}));
}

TEST(Halving, IsReadFromTheDocumentOfATrial) {
    const ParsedJob job = parse_with({{"grid", {{"env.A", {1, 2}}}},
                                      {"mode", "max"},
                                      {"metric", "score"},
                                      {"halving", {{"min_steps", 5}, {"reduction", 2}}}});
    const auto tasks = array_tasks(job.spec, {0, 1});
    EXPECT_EQ(halving_of(tasks[1].document.text()), (Halving{"score", true, 2, 5}));
    EXPECT_EQ(halving_of(R"({"name": "x"})"), std::nullopt);
    EXPECT_EQ(halving_of(R"({"sweep":{"halving":{"reduction":1}}})"), std::nullopt);
}

}  // namespace
}  // namespace roll::spec
