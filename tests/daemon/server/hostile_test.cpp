// Input and conditions that would once have ended rolld, or kept it from ending. rolld must answer,
// or end.
#include <limits>

#include <sys/stat.h>

#include "tests/daemon/server/daemon.hpp"

namespace roll {
namespace {

Json submission(const std::string& key, const std::string& document) {
    Json args = submit_args(key);
    args["spec"]["document"] = document;
    return args;
}

std::string refusal(io::Client& client, const Json& args) {
    const auto reply = client.ask("submit", args, 30s);
    return reply ? "queued" : reply.error().message;
}

TEST(Hostile, AnythingMayBeSaidOfProgress) {
    Daemon daemon;
    daemon.start();
    FakeWorker worker(daemon);
    io::Client client = daemon.client();
    worker.until([](const auto&) { return true; });
    ASSERT_TRUE(client.ask("submit", submit_args("k"), 30s));
    const auto order = worker.until([](const auto& a) { return !a.start.empty(); }).start.front();
    const std::string deep = R"({"a":)" + std::string(90, '[') + std::string(90, ']') + "}";
    for (const std::string& progress :
         {std::string(R"({"ranks":8})"), std::string(R"({"ranks":[1]})"),
          std::string(R"({"ranks":[{"rank":0,"step":1,"own_ms":"slow"}]})"), deep}) {
        worker.report(order.attempt, protocol::Phase::Running);
        worker.heartbeat.running.front().progress = progress;
        worker.until([](const auto& a) { return !a.keep.empty(); });
        for (const char* op : {"jobs", "nodes", "alloc_list"})
            ASSERT_TRUE(client.ask(op, Json::object(), 30s)) << progress;
        const auto shown = client.ask("show", {{"id", 1}}, 30s);
        ASSERT_TRUE(shown) << progress;
        EXPECT_EQ((*shown)["job"]["ranks"], Json::array());
    }
}

TEST(Hostile, ASubmissionThatCannotBeReadIsRefused) {
    Daemon daemon;
    daemon.start();
    FakeWorker worker(daemon);
    worker.until([](const auto&) { return true; });
    io::Client client = daemon.client();
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    EXPECT_NE(refusal(client, submission("a", "x")).find("invalid JSON"), std::string::npos);
    EXPECT_NE(refusal(client, submission("b", deep)).find("nests deeper"), std::string::npos);
    Json args = submission("c", "{}");
    args["spec"]["variants"] = {args["spec"]["resources"]};
    EXPECT_NE(refusal(client, args).find("variants"), std::string::npos);
    args = submission("d", "{}");
    args["spec"]["retry"]["on_log"] = {"stop"};
    EXPECT_NE(refusal(client, args).find("on_log"), std::string::npos);
    args = submission("e", R"({"convert": {"target": 5}})");
    args["spec"]["kind"] = "convert";
    args["spec"]["then"] = {submission("", R"({"command": ["{previous.result}"]})")["spec"]};
    EXPECT_NE(refusal(client, args).find("makes no model"), std::string::npos);
    EXPECT_NE(refusal(client, submission(std::string(300, 'k'), "{}"))
                  .find("has 300 bytes; allowed: 1 to 256"),
              std::string::npos);
    EXPECT_NE(refusal(client, Json::object()), "queued");
    const auto many = client.ask_all("submit", {{{"key", std::string(17u << 20, 'x')}}}, 60s);
    ASSERT_EQ(many.size(), 1u);
    EXPECT_NE(many[0].error().message.find("allowed: at most 16777216"), std::string::npos);
    EXPECT_EQ(refusal(client, submission("f", "{}")), "queued");
    EXPECT_EQ((*client.ask("show", {{"id", 1}}, 30s))["job"]["spec"], Json::object());
}

// A client that is not rollctl may send anything in `files`.
TEST(Hostile, FilesThatNoJobCanHaveAreRefused) {
    Daemon daemon;
    daemon.start();
    io::Client client = daemon.client();
    const auto put = client.ask("piece_put", {{"data", "YWJj"}}, 30s);  // abc
    ASSERT_TRUE(put);
    const Json pieces = {(*put)["piece"]};
    const auto refused = [&](const Json& files) {
        Json args = submission("key", Json{{"command", {"true"}}, {"files", files}}.dump());
        args["spec"]["needs"] = {"files"};
        return refusal(client, args);
    };
    const auto file = [&](const std::string& name, const Json& bytes, const Json& of) {
        return Json::array({{{"name", name}, {"bytes", bytes}, {"pieces", of}}});
    };
    const auto says = [&](const Json& files, const std::string& text) {
        const std::string why = refused(files);
        EXPECT_NE(why.find(text), std::string::npos) << files.dump().substr(0, 200) << "\n" << why;
    };
    for (const char* name : {"../x", "a//b", "/x", "a/../../x", "a/", ".", "", "a\nb"})
        says(file(name, 3, pieces), "files[0].name ");
    says(file("x", 4, pieces), "file x: `bytes` is 4, but the file's pieces have 3 bytes");
    says(file("x", 0, pieces), "files[0].bytes is 0, which cannot be the size of 1 pieces");
    says(file("x", 3, Json::array({std::string(64, '0')})), "rolld lacks 1 of the 1 pieces");
    for (const char* hash : {"", "../../rolld.pid", "ABC"})
        says(file("x", 3, Json::array({hash})), "allowed: 64 lower-case hex digits");
    says(file("x", 1'000'000'000'000, pieces), "cannot be the size of 1 pieces");
    says(file("x", 20'000'000, Json(Json::array_t(80, pieces[0]))), "rolld accepts at most");
    says(file("x", "three", pieces), "files[0].bytes is \"three\"; allowed: an integer");
    says(file("x", 3, "abc"), "files[0].pieces is \"abc\"; allowed: a list");
    Json many = Json::array();
    for (int i = 0; i <= 1000; ++i) many.push_back(file("x" + std::to_string(i), 3, pieces)[0]);
    says(many, "files has 1001 files; allowed: at most 1000");
    Json sum = file("x", std::numeric_limits<std::uint64_t>::max(), pieces);
    sum.push_back(file("y", 4, pieces)[0]);  // the sum of the sizes would overflow to 3
    says(sum, "files[0].bytes is 18446744073709551615");
    for (const auto& [name, text] :
         {std::pair("x", "files[1].name is x, the name of an earlier file"),
          std::pair("x/y", "files has both x and x/y")}) {
        Json two = file("x", 3, pieces);
        two.push_back(file(name, 3, pieces)[0]);
        says(two, text);
    }
    EXPECT_EQ(refused(file("x", 3, pieces)), "queued");
    EXPECT_EQ(client.ask("jobs", Json::object(), 30s).value()["jobs"].size(), 1u);
}

TEST(Hostile, APageEndsBeforeItIsLargerThanAMessage) {
    Daemon daemon;
    daemon.start();
    FakeWorker worker(daemon);
    io::Client client = daemon.client();
    worker.until([](const auto&) { return true; });
    for (const std::string key : {"1", "2", "3", "4"}) {
        Json args = submit_args(key);
        args["spec"]["retry"]["app"] = 0;
        ASSERT_TRUE(client.ask("submit", args, 30s));
        const auto order = worker.until([](const auto& a) { return !a.start.empty(); });
        worker.report(order.start.front().attempt, protocol::Phase::Ended, Outcome::App);
        worker.heartbeat.running.front().reason = std::string(6u << 20, 'x');
        const std::uint64_t before = worker.heartbeat.sequence;
        worker.until([&](const auto& a) { return a.sequence > before && a.keep.empty(); });
        worker.heartbeat.running.clear();
    }
    std::uint64_t next = 0;
    for (int page = 1; page <= 4; ++page) {
        const auto jobs = client.ask("jobs", {{"all", true}, {"from", next}}, 60s);
        ASSERT_TRUE(jobs) << jobs.error().message;
        EXPECT_EQ((*jobs)["jobs"].size(), 1u);
        ASSERT_EQ((*jobs)["next"].is_null(), page == 4);
        if (page < 4) next = (*jobs)["next"].get<std::uint64_t>();
    }
    std::size_t events = 0;
    for (Json since = 0;;) {
        const auto some = client.ask("events", {{"since", since}, {"limit", 10'000}}, 60s);
        ASSERT_TRUE(some) << some.error().message;
        if ((*some)["events"].empty()) break;
        events += (*some)["events"].size();
        since = (*some)["next"];
    }
    EXPECT_GE(events, 12u) << "submitted, placed and ended, each four times";
}

// Replaces the beacon by a FIFO without a writer. Opening it blocks, as on a volume that hangs.
void hang_volume(const Daemon& daemon) {
    const auto pipe = daemon.root / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    std::filesystem::rename(pipe, daemon.directory().beacon());
}

TEST(Hostile, AVolumeThatHangsDoesNotKeepRolldFromEnding) {
    for (const bool asked : {true, false}) {
        Daemon daemon;
        daemon.start({"--volume-patience", "4"});
        FakeWorker worker(daemon);
        worker.until([](const auto& a) { return a.counter > 0; });
        hang_volume(daemon);
        const auto began = std::chrono::steady_clock::now();
        for (int i = 0; i < 100 && (!asked || i < 20) && ::kill(daemon.pid(), 0) == 0; ++i) {
            worker.beat();
            std::this_thread::sleep_for(100ms);
        }
        if (asked) ::kill(daemon.pid(), SIGTERM);
        EXPECT_EQ(daemon.wait(), asked ? 0 : 5);
        EXPECT_LT(std::chrono::steady_clock::now() - began, 40s);
        EXPECT_FALSE(std::filesystem::exists(daemon.directory().pid("rolld")));
    }
}

TEST(Hostile, AClusterThatLostItsNameIsGivenNoOther) {
    Daemon daemon;
    daemon.start();
    daemon.end(SIGTERM);
    const auto file = daemon.root / "cluster";
    const std::string name = *read_file(file);
    ASSERT_TRUE(write_file_atomically(file, ""));
    daemon.launch();
    EXPECT_EQ(daemon.wait(), 6);  // a damaged file, with which systemd does not start rolld again
    std::filesystem::remove(file);
    std::filesystem::create_directory(file);  // a directory cannot be read as a file
    daemon.launch();
    EXPECT_NE(daemon.wait(), 0);
    std::filesystem::remove(file);
    ASSERT_TRUE(write_file_atomically(file, name));
    daemon.start();
    EXPECT_EQ(*read_file(file), name);
}

}  // namespace
}  // namespace roll
