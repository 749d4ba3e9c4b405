#include "daemon/http/site.hpp"

#include <gtest/gtest.h>

#include "daemon/http/openapi.hpp"
#include "daemon/http/routes.hpp"

namespace roll::http {
namespace {

class SiteTest : public ::testing::Test {
  protected:
    Result<Json> rolld(const std::string& op, const Json& args) {
        asked.push_back(op + " " + args.dump());
        if (!runs) return fail(ErrorCode::Unavailable, "rolld does not run", "rollctl up");
        if (op == "with_token") {
            const std::string secret = args.at("token");
            if (!secret.starts_with("roll_")) return fail(ErrorCode::Refused, "unknown token");
            const std::string scope = secret.substr(5);
            if (scope == "none") return fail(ErrorCode::Refused, "unknown token");
            if (args.at("op") == "whoami")
                return Json{{"user", "ann"}, {"scope", scope}, {"operator", false}};
            return rolld(args.at("op"), args.value("args", Json::object()));
        }
        if (op == "show" && args["id"] == 9) return fail(ErrorCode::NotFound, "there is no job 9");
        if (op == "show")
            return Json{{"job",
                         {{"output", "/runs/a"},
                          {"attempt", 2},
                          {"spec", spec},
                          {"id", args["id"]},
                          {"user", args["id"] == 8 ? "bob" : "ann"}}}};
        if (op == "jobs") return Json{{"jobs", trials}};
        if (op == "whoami") return Json{{"user", "root"}, {"scope", "operate"}, {"operator", true}};
        return Json::object();
    }
    Reply get(const std::string& target) { return site.answer(request("GET", target)); }
    static Request request(const std::string& method, const std::string& target) {
        return {.method = method,
                .target = target,
                .host = "127.0.0.1:8410",
                .origin = "",
                .authorization = "Bearer secret-of-the-test",
                .action = "1",
                .body = ""};
    }
    static std::string message(const Reply& reply) {
        return Json::parse(*reply.body).at("error").at("message");
    }
    std::vector<std::string> asked, read;
    bool runs = true;
    Json spec = {{"stdout", "%j.log"}}, trials = Json::array();
    Json file = Json::object();  // what the reader of files answers
    int plans = 0;
    Json planned;  // the job file whose schedule was computed last
    Site site{{.token = "secret-of-the-test", .hosts = {"127.0.0.1:8410"}},
              [this](const std::string& op, const Json& args) { return rolld(op, args); },
              [this](const std::string& op, const Json& args) -> Result<Json> {
                  read.push_back(op + " " + args.dump());
                  return file;
              },
              [this](const Json& document) -> Result<Json> {
                  ++plans;
                  planned = document;
                  return Json{{"mesh", {{"pp", 2}}}, {"pipeline", {{"schedule", "1f1b"}}}};
              }};
};

TEST_F(SiteTest, ThePageNeedsNoTokenAndEverythingElseDoes) {
    Request bare = request("GET", "/");
    bare.authorization.clear();
    const Reply page = site.answer(bare);
    EXPECT_EQ(page.status, 200);
    EXPECT_EQ(page.type, "text/html; charset=utf-8");
    EXPECT_NE(page.body->find("<main"), std::string::npos);
    for (const char* name :
         {"/app.js", "/base.js", "/live.js", "/chart.js", "/actions.js", "/queue.js", "/job.js",
          "/log.js", "/sweeps.js", "/usage.js", "/cluster.js", "/style.css"}) {
        bare.target = name;
        EXPECT_EQ(site.answer(bare).status, 200) << name;
        EXPECT_FALSE(site.answer(bare).body->empty()) << name;
        bare.target += "?x=1&x=%";
        EXPECT_EQ(site.answer(bare).status, 200) << bare.target;
    }
    for (const char* target : {"/?", "/?x=1"}) {
        bare.target = target;
        EXPECT_EQ(*site.answer(bare).body, *page.body) << target;
    }
    for (const char* target : {"/metrics", "/api/v1/jobs", "/api/v1/jobs/1", "/nothing"}) {
        bare.target = target;
        for (const char* given : {"", "Bearer ", "Bearer secret-of-the-tes", "Basic c2VjcmV0",
                                  "Bearer secret-of-the-test2", "secret-of-the-test"}) {
            bare.authorization = given;
            EXPECT_EQ(site.answer(bare).status, 401) << target << given;
        }
    }
    EXPECT_TRUE(asked.empty());
}

TEST_F(SiteTest, OtherHostsAndOriginsAreRefused) {
    Request other = request("GET", "/");
    for (const char* host : {"evil.example", "127.0.0.1", "127.0.0.1:84100", "localhost:8410"}) {
        other.host = host;
        EXPECT_EQ(site.answer(other).status, 403) << host;
    }
    other.host = "";
    EXPECT_EQ(site.answer(other).status, 400);
    EXPECT_EQ(message(site.answer(other)), "the request has no header Host");
    Request foreign = request("POST", "/api/v1/jobs/1/cancel");
    foreign.origin = "http://evil.example";
    EXPECT_EQ(site.answer(foreign).status, 403);
    foreign.origin = "null";
    EXPECT_EQ(site.answer(foreign).status, 403);
    EXPECT_TRUE(asked.empty());
    foreign.origin = "http://127.0.0.1:8410";
    EXPECT_EQ(site.answer(foreign).status, 200);
}

TEST_F(SiteTest, ParametersBecomeArgumentsOfJobs) {
    EXPECT_EQ(get("/api/v1/jobs?state=running&user=ann&limit=5&from=7&all=1&fields=id,name").status,
              200);
    ASSERT_EQ(asked.size(), 1u);
    EXPECT_EQ(asked.front(),
              R"(jobs {"all":true,"fields":["id","name"],"from":7,"limit":5,"state":"running",)"
              R"("user":"ann"})");
    EXPECT_EQ(message(get("/api/v1/jobs?limit=five")),
              "limit is five; allowed: a whole number from 1 to 10000");
    EXPECT_EQ(message(get("/api/v1/jobs?stat=x")),
              "unknown parameter stat; allowed: selector, me, all, state, user, kind, from, limit, "
              "fields, since, fold, reverse");
    EXPECT_EQ(get("/api/v1/jobs?limit=-").status, 400);
    EXPECT_EQ(asked.size(), 1u);
}

TEST_F(SiteTest, LogsAndMetricsAreReadBelowTheJobsOutput) {
    EXPECT_EQ(get("/api/v1/jobs/3/log").status, 200);
    EXPECT_EQ(get("/api/v1/jobs/3/log?rank=4&attempt=1&from=100").status, 200);
    EXPECT_EQ(get("/api/v1/jobs/3/metrics?points=50").status, 200);
    EXPECT_EQ(read,
              (std::vector<std::string>{
                  R"(log {"attempt":2,"output":"/runs/a","rank":0,"stdout":"%j.log"})",
                  R"(log {"attempt":1,"from":100,"output":"/runs/a","rank":4,"stdout":"%j.log"})",
                  R"(metrics {"output":"/runs/a","points":50})"}));
    for (const char* bad : {"/api/v1/jobs/3/log?rank=../../x", "/api/v1/jobs/3/log?rank=-1",
                            "/api/v1/jobs/3/log?attempt=1e9", "/api/v1/jobs/3%2f..%2f4/log"})
        EXPECT_EQ(get(bad).status, 400) << bad;
    EXPECT_EQ(get("/api/v1/jobs/3/passwd").status, 404);
    EXPECT_EQ(get("/api/v1/jobs/9/log").status, 404);
    EXPECT_EQ(read.size(), 3u);
}

TEST_F(SiteTest, ChangesAreSentToRolld) {
    Request cancel = request("POST", "/api/v1/jobs/3/cancel");
    cancel.body = R"({"reason": "too slow"})";
    EXPECT_EQ(site.answer(cancel).status, 200);
    EXPECT_EQ(site.answer(request("POST", "/api/v1/jobs/4/hold")).status, 200);
    EXPECT_EQ(site.answer(request("POST", "/api/v1/jobs/5/checkpoint")).status, 200);
    EXPECT_EQ(asked,
              (std::vector<std::string>{R"(cancel {"reason":"too slow","selector":"3"})",
                                        R"(hold {"selector":"4"})", R"(checkpoint {"id":5})"}));
    cancel.body = "{\"reason\": 3}";
    EXPECT_EQ(site.answer(cancel).status, 400);
    cancel.body = R"({"selector": "all"})";
    EXPECT_EQ(site.answer(cancel).status, 400);
    for (const char* target :
         {"/api/v1/jobs/all/cancel", "/api/v1/jobs/3/shutdown", "/api/v1/shutdown",
          "/api/v1/token_create", "/api/v1/with_token", "/api/v1/jobs/3"})
        EXPECT_GE(site.answer(request("POST", target)).status, 400) << target;
    EXPECT_EQ(asked.size(), 3u);
    EXPECT_EQ(site.answer(request("DELETE", "/api/v1/jobs/3")).status, 405);
    EXPECT_EQ(get("/api/v1/jobs/3/cancel").status, 405) << "GET changes nothing";
}

TEST_F(SiteTest, EachOperationOfTheTableIsServedAndDescribed) {
    const Json api = Json::parse(*get("/api/v1/openapi.json").body);
    EXPECT_EQ(api["openapi"], "3.1.0");
    std::size_t described = 0;
    for (const protocol::OperationInfo& info : protocol::operations()) {
        const std::string name = info.operation->name, path = "/api/v1/" + name;
        const bool reads = info.operation->access == protocol::Access::Read;
        ASSERT_EQ(api["paths"].contains(path), is_served(*info.operation)) << path;
        const bool posts = site.answer(request("POST", path)).status != 404;
        EXPECT_EQ(posts, is_served(*info.operation)) << path;
        if (!posts) continue;
        ++described;
        const Json& entry = api["paths"][path];
        EXPECT_EQ(entry.contains("get"), reads) << path;
        EXPECT_EQ(get(path).status == 405, !reads) << path;
        const Json& schema = entry["post"]["requestBody"]["content"]["application/json"]["schema"];
        const auto fields = info.arguments();
        EXPECT_EQ(schema["properties"].size(), fields.size()) << path;
        for (const protocol::FieldInfo& field : fields)
            EXPECT_EQ(schema["properties"][field.name]["description"], field.help) << path;
    }
    EXPECT_EQ(api["paths"].size(), described + routes().size()) << "each route has its own path";
}

TEST_F(SiteTest, EachRouteOfTheTableIsServedAndDescribed) {
    const Json api = Json::parse(*get("/api/v1/openapi.json").body);
    file["rows"] = Json::array();
    spec = {{"parallel", {{"pp", 2}}}, {"sweep", {{"trials", {{{"lr", 1}}}}, {"metric", "loss"}}}};
    for (const Route& route : routes()) {
        std::string path = route.path;
        const Json entry = api["paths"].value(path, Json::object());
        ASSERT_TRUE(entry.contains(route.posts ? "post" : "get")) << path;
        const Json& method = entry[route.posts ? "post" : "get"];
        EXPECT_EQ(entry.size(), 1u) << path;
        if (const auto id = path.find("{id}"); id != std::string::npos) path.replace(id, 4, "3");
        const std::string query = route.page == Page::Stream ? "?watch=totals" : "";
        const Reply reply = site.answer(request(route.posts ? "POST" : "GET", path + query));
        EXPECT_EQ(reply.status, 200) << path << *reply.body;
        EXPECT_EQ(reply.type, route.type) << path;
        const Json& content = method["responses"]["200"]["content"];
        EXPECT_TRUE(reply.type.starts_with(content.begin().key())) << path;
        EXPECT_EQ(site.answer(request(route.posts ? "GET" : "POST", path)).status, 405) << path;
        const Reply unknown = site.answer(request(route.posts ? "POST" : "GET", path + "?zzz=1"));
        EXPECT_EQ(unknown.status, 400) << path;
        EXPECT_TRUE(message(unknown).starts_with("unknown parameter zzz; allowed: ")) << path;
        std::size_t described = method.value("parameters", Json::array()).size();
        if (route.posts)
            described =
                method["requestBody"]["content"]["application/json"]["schema"]["properties"].size();
        else if (path != route.path)
            --described;  // the job's number
        EXPECT_EQ(described, route.fields().size()) << path;
    }
}

TEST_F(SiteTest, AValueThatIsNotAllowedIsRefusedInASentence) {
    const std::string rows = "a whole number from 1 to 10000",
                      natural = "a whole number of at least 0",
                      ranks = "a whole number from 0 to 4294967295";
    for (const auto& [target, says] : std::vector<std::pair<std::string, std::string>>{
             {"jobs?limit=-1", "limit is -1; allowed: " + rows},
             {"jobs?limit=0", "limit is 0; allowed: " + rows},
             {"jobs?limit=10001", "limit is 10001; allowed: " + rows},
             {"jobs?limit=", "limit is empty; allowed: " + rows},
             {"events?limit=0", "limit is 0; allowed: " + rows},
             {"events?since=-1", "since is -1; allowed: " + natural},
             {"jobs?since=-1", "since is -1; allowed: " + natural},
             {"jobs?from=-1", "from is -1; allowed: " + natural},
             {"jobs?all=2", "all is 2; allowed: 1, true, 0 or false"},
             {"jobs?fields=id,zzz", "fields has zzz; allowed: id, name, kind, "},
             {"jobs/3/metrics?points=-5", "points is -5; allowed: a whole number from 2 to 2000"},
             {"jobs/3/log?attempt=0", "attempt is 0; allowed: a whole number from 1 to 4294967295"},
             {"jobs/3/log?rank=-1", "rank is -1; allowed: " + ranks},
             {"jobs/3/log?rank=9999999999", "rank is 9999999999; allowed: " + ranks},
             {"show", "the request has no id, which is required"}}) {
        const Reply reply = get("/api/v1/" + target);
        EXPECT_EQ(reply.status, 400) << target;
        EXPECT_TRUE(message(reply).starts_with(says)) << target << ": " << message(reply);
    }
    Request hold = request("POST", "/api/v1/hold");
    const std::string deep = "{\"selector\": " + std::string(40, '[') + std::string(40, ']') + "}";
    for (const auto& [body, says] : std::vector<std::pair<std::string, std::string>>{
             {R"({"selector": "3", "colour": 1})", "unknown field colour; allowed: selector, me, "},
             {deep, "the body of the request cannot be read: JSON nests deeper than 32 levels"},
             {"[]", "the body is a JSON array; allowed: an object"},
             {R"({"selector": "3", "wait_ms": -1})", "wait_ms is -1; allowed: " + natural},
             {R"({"selector": 3})", "hold: field selector is 3; allowed: a text"}}) {
        hold.body = body;
        const Reply reply = site.answer(hold);
        EXPECT_EQ(reply.status, 400) << body;
        EXPECT_TRUE(message(reply).starts_with(says)) << body << ": " << message(reply);
        EXPECT_EQ(reply.body->find("rollctl version"), std::string::npos) << *reply.body;
    }
    EXPECT_TRUE(asked.empty());
}

TEST_F(SiteTest, AClientThatSendsTooManyRequestsIsToldWhenToSendMore) {
    Site slow{
        {.token = "secret-of-the-test", .hosts = {"127.0.0.1:8410"}, .requests_per_second = 1},
        [this](const std::string& op, const Json& args) { return rolld(op, args); },
        [](const std::string&, const Json&) -> Result<Json> { return Json(); }};
    Request made = request("GET", "/api/v1/totals");
    made.address = "192.0.2.1";
    const auto with = [&](const std::string& authorization) {
        made.authorization = authorization;
        return slow.answer(made);
    };
    const auto status = [&](const std::string& authorization) {
        return with(authorization).status;
    };
    EXPECT_EQ(status("Bearer roll_read"), 200);
    for (int i = 0; i < Site::kBurstSeconds + 5; ++i) with("Bearer roll_none" + std::to_string(i));
    EXPECT_EQ(status("Bearer roll_none"), 429) << "made-up tokens count for the address";
    const auto before = asked.size();
    EXPECT_EQ(status("Bearer roll_another"), 429);
    EXPECT_EQ(asked.size(), before) << "rolld is not asked about the token";
    made.target = "/";
    EXPECT_EQ(status(""), 429) << "the page";
    made.target = "/api/v1/totals";
    EXPECT_EQ(status("Bearer roll_read"), 200) << "a valid token behind the same address";
    for (int i = 0; i < Site::kBurstSeconds + 5; ++i) with("Bearer roll_read");
    const Reply refused = with("Bearer roll_read");
    EXPECT_EQ(refused.status, 429);
    EXPECT_EQ(refused.retry_after_s, 1);
    EXPECT_EQ(message(refused), "this client sends too many requests; allowed: 1 a second");
    EXPECT_EQ(slow.answer_watched(made).status, 200) << "a stream's answers are not counted";
    made.address = "192.0.2.2";
    EXPECT_EQ(status("Bearer roll_read"), 200) << "the same token at another address";
    EXPECT_EQ(status("Bearer roll_submit"), 200);
}

TEST_F(SiteTest, OperationsTakeTheirArgumentsFromABodyOrParameters) {
    Request hold = request("POST", "/api/v1/hold");
    hold.body = R"({"selector": "3-9", "wait_ms": 999999})";
    EXPECT_EQ(site.answer(hold).status, 200);
    EXPECT_EQ(get("/api/v1/report?by=week&since=5").status, 200);
    EXPECT_EQ(get("/api/v1/show?id=7").status, 200);
    EXPECT_EQ(asked,
              (std::vector<std::string>{R"(hold {"selector":"3-9","wait_ms":2000})",
                                        R"(report {"by":"week","since":5})", R"(show {"id":7})"}));
    for (const char* body :
         {"{", "[]", "{}", R"({"selector": 3})", R"({"selector": "3", "colour": "red"})"}) {
        hold.body = body;
        EXPECT_EQ(site.answer(hold).status, 400) << body;
    }
    hold.body = R"({"selector": "3"})";
    hold.target = "/api/v1/hold?selector=4";
    EXPECT_EQ(site.answer(hold).status, 400) << "parameters of POST are in the body";
    hold.target = "/api/v1/hold";
    hold.action.clear();
    EXPECT_EQ(site.answer(hold).status, 403) << "a form of another site sends no such header";
    EXPECT_EQ(asked.size(), 3u);
}

TEST_F(SiteTest, ATokenOpensWhatItsScopeAllows) {
    const auto with = [&](const char* scope, Request made) {
        made.authorization = std::string("Bearer roll_") + scope;
        return site.answer(made).status;
    };
    Request submit = request("POST", "/api/v1/submit");
    submit.body = R"({"key": "k", "spec": {}})";
    Request cancel = request("POST", "/api/v1/cancel");
    cancel.body = R"({"selector": "3"})";
    const Request jobs = request("GET", "/api/v1/jobs");
    EXPECT_EQ(with("none", jobs), 401);
    EXPECT_TRUE(with("read", jobs) == 200 && with("submit", jobs) == 200);
    EXPECT_TRUE(with("read", submit) == 403 && with("submit", submit) == 200);
    EXPECT_TRUE(with("submit", cancel) == 403 && with("operate", cancel) == 200);
    EXPECT_EQ(with("submit", request("POST", "/api/v1/jobs/3/cancel")), 403);
    EXPECT_EQ(with("operate", request("GET", "/api/v1/jobs/8/log")), 403) << "bob's job";
    EXPECT_EQ(with("read", request("GET", "/api/v1/jobs/3/log")), 200);
    EXPECT_EQ(with("read", request("GET", "/metrics")), 200);
    EXPECT_EQ(read.size(), 1u);
}

TEST_F(SiteTest, ASessionTellsTheRightsOfTheToken) {
    EXPECT_EQ(Json::parse(*get("/api/v1/session").body),
              Json::parse(R"({"schema": "roll.session/1", "user": "root", "operator": true,
                              "scope": "operate", "read_only": false})"));
    Request reader = request("GET", "/api/v1/session");
    reader.authorization = "Bearer roll_read";
    const Json session = Json::parse(*site.answer(reader).body);
    EXPECT_EQ(session["user"], "ann");
    EXPECT_EQ(session["scope"], "read");
    EXPECT_EQ(session["operator"], false);
}

TEST_F(SiteTest, AStreamNamesTheWatchedAnswersAndNeedsAToken) {
    const Reply stream = get("/api/v1/stream?watch=jobs%3Flimit%3D5%26all%3D1+totals");
    EXPECT_EQ(stream.type, "text/event-stream");
    EXPECT_EQ(stream.watched,
              (std::vector<std::string>{"/api/v1/jobs?limit=5&all=1", "/api/v1/totals"}));
    for (const char* bad :
         {"stream", "stream?watch=", "stream?watch=stream%3Fwatch%3Dtotals",
          "stream?watch=a+a+a+a+a+a+a+a+a", "stream?watch=totals&all=1",
          "stream?watch=jobs/7/metrics", "stream?watch=totals+jobs/7/pipeline",
          "stream?watch=jobs/7/log+jobs/8/log", "stream?watch=jobs/7/log%3Ffrom%3D5"})
        EXPECT_EQ(get(std::string("/api/v1/") + bad).status, 400) << bad;
    EXPECT_EQ(get("/api/v1/stream?watch=jobs/7+jobs/7/log%3Frank%3D0").watched.size(), 2u);
    Request stranger = request("GET", "/api/v1/stream?watch=totals");
    stranger.authorization = "Bearer roll_none";
    EXPECT_EQ(site.answer(stranger).status, 401);
    EXPECT_TRUE(site.answer(stranger).watched.empty());
    EXPECT_EQ(site.answer(request("POST", "/api/v1/stream?watch=totals")).status, 405);
}

TEST_F(SiteTest, MetricsHaveOnlyTheAskedKeys) {
    file = {{"rows", {{{"step", 1}, {"loss", 2.5}, {"lr", 0.1}}, {{"step", 2}, {"lr", 0.1}}}}};
    EXPECT_EQ(Json::parse(*get("/api/v1/jobs/3/metrics?keys=step,loss").body)["rows"],
              Json::parse(R"([{"step": 1, "loss": 2.5}])"));
    EXPECT_EQ(Json::parse(*get("/api/v1/jobs/3/metrics").body)["rows"].size(), 2u);
}

TEST_F(SiteTest, ASweepIsComparedByItsMetricFromTheFilesOfItsTrials) {
    spec["sweep"] = {{"trials", {{{"lr", 1}}, {{"lr", 2}}}}, {"metric", "score"}, {"mode", "max"}};
    for (const int i : {0, 1})
        trials.push_back({{"id", 3 + i},
                          {"state", i == 0 ? "done" : "queued"},
                          {"output", "/runs/" + std::to_string(i)},
                          {"array", {{"job", 3}, {"index", i}}}});
    const std::string rows = "{\"step\":1,\"score\":4}\n{\"step\":2,\"score\":3}\n{\"st";
    file = {{"from", 0}, {"next", rows.size()}, {"size", rows.size()}, {"text", rows}};
    const Json sweep = Json::parse(*get("/api/v1/jobs/3/sweep").body);
    EXPECT_EQ(sweep["percent"], 50);
    EXPECT_EQ(sweep["best"], 3);
    EXPECT_EQ(sweep["trials"][0]["best"], 4);
    EXPECT_EQ(sweep["trials"][0]["best_step"], 1);
    EXPECT_EQ(sweep["trials"][0]["last"], 3);
    EXPECT_EQ(read.front(), R"(metrics_part {"from":0,"output":"/runs/0"})");
    EXPECT_EQ(get("/api/v1/jobs/8/sweep").status, 200) << "an operator sees all jobs";
    Request other = request("GET", "/api/v1/jobs/8/sweep");
    other.authorization = "Bearer roll_operate";
    EXPECT_EQ(site.answer(other).status, 403) << "ann does not see bob's files";
    spec.clear();
    EXPECT_EQ(get("/api/v1/jobs/5/sweep").status, 400);
}

TEST_F(SiteTest, ThePipelineOfAJobIsPlannedOnce) {
    EXPECT_EQ(get("/api/v1/jobs/3/pipeline").status, 400) << "no pipeline";
    spec["parallel"] = {{"pp", 2}};
    for (int i = 0; i < 2; ++i) {
        const Json reply = Json::parse(*get("/api/v1/jobs/4/pipeline").body);
        EXPECT_EQ(reply["pipeline"]["schedule"], "1f1b");
        EXPECT_EQ(plans, 1);
    }
    spec["then"] = {{{"env", {{"HIDDEN", nullptr}}}}};
    EXPECT_EQ(get("/api/v1/jobs/8/pipeline").status, 200);
    EXPECT_EQ(planned["parallel"]["pp"], 2);
    EXPECT_FALSE(planned.contains("then")) << "its hidden values make the job file invalid";
    Request other = request("GET", "/api/v1/jobs/8/pipeline");
    other.authorization = "Bearer roll_read";
    EXPECT_EQ(site.answer(other).status, 403);
}

TEST(TrialFiles, ReadsEachPartOfAGrowingFileOnce) {
    std::string file = "{\"step\":1,\"loss\":3}\n{\"step\":2,\"lo";
    std::vector<std::uint64_t> asked;
    TrialFiles trials;
    const ReadPart read = [&](const std::string& output, std::uint64_t from) -> Result<Json> {
        EXPECT_EQ(output, "/out");
        asked.push_back(from);
        if (from > file.size()) from = 0;  // as read_log(): the end of a file that became shorter
        return Json{{"from", from}, {"size", file.size()}, {"text", file.substr(from)}};
    };
    EXPECT_EQ(trials.read("/out", "loss", false, read).best, 3);
    file += "ss\":1}\nnot json\n{\"step\":3,\"loss\":2}\n";
    const TrialMetric grown = trials.read("/out", "loss", false, read);
    EXPECT_EQ(grown.best, 1);
    EXPECT_EQ(grown.best_step, 2);
    EXPECT_EQ(grown.last, 2);
    EXPECT_EQ(asked, (std::vector<std::uint64_t>{0, 20}));
    file = "{\"step\":1,\"loss\":9}\n";
    EXPECT_EQ(trials.read("/out", "loss", false, read).best, 9) << "the file began again";
}

TEST(TrialFiles, AFileThatWasReplacedByOneOfEqualSizeIsReadAgain) {
    std::string file = "{\"step\":1,\"loss\":3}\n";
    std::uint64_t inode = 5;
    std::int64_t written = 100;
    TrialFiles trials;
    const ReadPart read = [&](const std::string&, std::uint64_t from) -> Result<Json> {
        return Json{{"from", from},
                    {"size", file.size()},
                    {"text", file.substr(from)},
                    {"inode", inode},
                    {"written", written}};
    };
    const auto best = [&] { return trials.read("/out", "loss", false, read).best; };
    EXPECT_EQ(best(), 3);
    file = "{\"step\":1,\"loss\":9}\n";
    EXPECT_EQ(best(), 3) << "nothing shows that it changed";
    written = 101;
    EXPECT_EQ(best(), 9) << "it was written again";
    file = "{\"step\":1,\"loss\":7}\n{\"step\":2,\"loss\":8}\n";
    inode = 6;
    EXPECT_EQ(best(), 7) << "another file has its name";
}

TEST_F(SiteTest, AReadOnlySiteChangesNothing) {
    Site reader{{.token = "secret-of-the-test", .hosts = {"127.0.0.1:8410"}, .read_only = true},
                [this](const std::string& op, const Json& args) { return rolld(op, args); },
                [](const std::string&, const Json&) -> Result<Json> { return Json(); }};
    EXPECT_EQ(reader.answer(request("POST", "/api/v1/jobs/3/cancel")).status, 403);
    EXPECT_TRUE(asked.empty());
    EXPECT_EQ(reader.answer(request("GET", "/api/v1/jobs")).status, 200);
}

TEST_F(SiteTest, ARolldThatDoesNotRunIsReportedAndMetricsSayItIsDown) {
    runs = false;
    const Reply jobs = get("/api/v1/jobs");
    EXPECT_EQ(jobs.status, 503);
    EXPECT_EQ(message(jobs), "rolld does not run");
    const Reply metrics = get("/metrics");
    EXPECT_EQ(metrics.status, 200);
    EXPECT_NE(metrics.body->find("\nroll_up 0\n"), std::string::npos);
}

}  // namespace
}  // namespace roll::http
