#include "common/io/beacon.hpp"
#include "common/protocol/client.hpp"
#include "tests/daemon/server/daemon.hpp"

namespace roll {
namespace {

std::string state_of(io::Client& client, std::uint64_t id) {
    const auto shown = client.ask("show", {{"id", id}}, 30s);
    EXPECT_TRUE(shown) << shown.error().message;
    return shown ? (*shown)["job"]["state"].get<std::string>() : "";
}

TEST(Rolld, CarriesAJobFromSubmitToDone) {
    Daemon daemon;
    daemon.start();
    io::Client client = daemon.client();
    FakeWorker worker(daemon);
    worker.until([](const auto&) { return true; });
    const auto submitted = client.ask("submit", submit_args("k1"), 30s);
    ASSERT_TRUE(submitted) << submitted.error().message;
    EXPECT_EQ((*submitted)["output"], "/nowhere/x-1");
    const auto order = worker.until([](const auto& answer) { return !answer.start.empty(); });
    const AttemptKey attempt = order.start[0].attempt;
    EXPECT_EQ(attempt, (AttemptKey{JobId{1}, Token{1, 1}}));
    EXPECT_EQ(order.start[0].document, R"({"name":"x"})");
    EXPECT_FALSE(order.start[0].nonce.empty());

    worker.report(attempt, protocol::Phase::Running);
    const auto kept = worker.until([](const auto& answer) { return !answer.keep.empty(); });
    EXPECT_TRUE(kept.start.empty());
    EXPECT_EQ(state_of(client, 1), "running");

    worker.heartbeat.running[0].checkpoints = {{.step = 5, .directory = "/c/5"}};
    worker.until([](const auto& answer) {
        return !answer.recorded.empty() && answer.recorded[0].steps == std::vector<std::int64_t>{5};
    });
    worker.report(attempt, protocol::Phase::Ended, Outcome::Done);
    worker.until([](const auto& answer) { return answer.keep.empty(); });
    EXPECT_EQ(state_of(client, 1), "done");
}

TEST(Rolld, WhatWasAcknowledgedIsThereAfterAKill) {
    constexpr int kJobs = 200;
    Daemon daemon;
    daemon.start();
    {
        io::Client client = daemon.client();
        for (int i = 0; i < kJobs; ++i) {
            const auto reply = client.ask("submit", submit_args("k" + std::to_string(i)), 30s);
            ASSERT_TRUE(reply) << reply.error().message;
        }
    }
    EXPECT_EQ(daemon.end(SIGKILL), 128 + SIGKILL);
    daemon.start();
    io::Client client = daemon.client();
    const auto jobs = client.ask("jobs", {{"all", true}}, 30s);
    ASSERT_TRUE(jobs);
    EXPECT_EQ((*jobs)["jobs"].size(), kJobs);
    const auto version = client.ask("version", Json::object(), 30s);
    EXPECT_EQ((*version)["incarnation"], 2);
    const auto again = client.ask("submit", submit_args("k7"), 30s);
    ASSERT_TRUE(again);
    EXPECT_EQ((*again)["id"], 8);
    EXPECT_EQ((*again)["repeated"], true);
}

TEST(Rolld, ACancelOfMoreThanATurnTakesIsAnsweredOnceWhenAllIsCommitted) {
    constexpr int kJobs = 1000;  // number of jobs that four turns process
    Daemon daemon;
    daemon.start();
    {
        io::Client client = daemon.client();
        Json args = submit_args("k");
        args["spec"]["array"] = {{"indices", "1-1000"}, {"limit", 0}, {"index", -1}};
        const auto queued = client.ask("submit", args, 30s);
        ASSERT_TRUE(queued) << queued.error().message;
        const auto cancelled = client.ask("cancel", {{"selector", "all"}}, 30s);
        ASSERT_TRUE(cancelled) << cancelled.error().message;
        EXPECT_EQ((*cancelled)["cancelled"].size(), kJobs);
    }
    daemon.end(SIGKILL);
    daemon.start();
    io::Client client = daemon.client();
    const auto jobs = client.ask("jobs", {{"all", true}, {"state", "cancelled"}}, 30s);
    ASSERT_TRUE(jobs) << jobs.error().message;
    EXPECT_EQ((*jobs)["jobs"].size(), kJobs);
}

TEST(Rolld, AnUnknownKeyGetsNoAnswer) {
    Daemon daemon;
    daemon.start();
    const auto server = io::load_public_key(daemon.directory().keys() / "server.pub");
    auto stranger =
        io::Client::connect(*daemon.directory().read_endpoint(), io::make_curve_keys(), *server);
    ASSERT_TRUE(stranger);
    const auto reply = stranger->ask("version", Json::object(), 1500ms);
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code, ErrorCode::Unavailable);
    io::Client known = daemon.client();
    EXPECT_TRUE(known.ask("version", Json::object(), 30s));
}

TEST(Rolld, ARevokedKeyIsCutOffAlsoWhereItIsConnected) {
    Daemon daemon;
    daemon.start();
    io::Client client = daemon.client();
    ASSERT_TRUE(client.ask("version", Json::object(), 30s));
    const auto key = daemon.directory().authorized() / "client.pub";
    const auto text = read_file(key);
    std::filesystem::remove(key);
    EXPECT_FALSE(client.ask("version", Json::object(), 1500ms));
    ASSERT_TRUE(write_file_atomically(key, *text));
    EXPECT_TRUE(client.ask("version", Json::object(), 30s));
}

// Returns a client of the user bob, whose key is in client-bob.pub.
io::Client client_of_bob(const Daemon& daemon) {
    const auto directory = daemon.directory();
    const auto keys =
        io::load_or_make_curve_keys(directory.keys(), "client-bob", directory.authorized());
    const auto server = io::load_public_key(directory.keys() / "server.pub");
    auto bob = io::Client::connect(*directory.read_endpoint(), *keys, *server);
    EXPECT_TRUE(bob);
    return *std::move(bob);
}

TEST(Rolld, AUserActsOnOwnJobsOnly) {
    Daemon daemon;
    daemon.start();
    io::Client owner = daemon.client();
    io::Client bob = client_of_bob(daemon);
    ASSERT_TRUE(owner.ask("submit", submit_args("a"), 30s));
    ASSERT_TRUE(bob.ask("submit", submit_args("b"), 30s)) << "says that it is ann's";
    const auto shown = bob.ask("show", {{"id", 2}}, 30s);
    ASSERT_TRUE(shown);
    EXPECT_EQ((*shown)["job"]["user"], "bob") << "the key says who it is";
    for (const char* op : {"cancel", "hold", "update"}) {
        const auto refused = bob.ask(op, {{"selector", "1-2"}, {"me", "ann"}}, 30s);
        ASSERT_FALSE(refused) << op;
        EXPECT_EQ(refused.error().code, ErrorCode::Refused);
        EXPECT_EQ(refused.error().message, "job 1 belongs to ann, not to bob");
    }
    for (const char* op : {"drain", "shutdown"})
        EXPECT_EQ(bob.ask(op, {{"node", "n"}}, 30s).error().code, ErrorCode::Refused) << op;
    EXPECT_EQ((*bob.ask("cancel", {{"selector", "2"}}, 30s))["cancelled"], Json({2}));
    ASSERT_TRUE(bob.ask("submit", submit_args("c"), 30s));
    const auto cancel_all = [](io::Client& client) {
        const auto reply = client.ask("cancel", {{"selector", "all"}}, 30s);
        EXPECT_TRUE(reply) << reply.error().message;
        EXPECT_EQ(reply->value("over", Json::array()), Json::array()) << "job 2 has long ended";
        return reply->value("cancelled", Json());
    };
    EXPECT_EQ((*bob.ask("hold", {{"selector", "2-3"}}, 30s))["over"], Json::array())
        << "nobody means the ended job of a range";
    EXPECT_EQ((*bob.ask("hold", {{"selector", "2,3"}}, 30s))["over"], Json({2})) << "named";
    EXPECT_EQ(cancel_all(bob), Json({3})) << "all of bob's";
    EXPECT_EQ(cancel_all(owner), Json({1}));
    EXPECT_EQ(cancel_all(owner), Json::array());
}

TEST(Rolld, EventsTellWhoAskedForThem) {
    Daemon daemon;
    daemon.start();
    io::Client bob = client_of_bob(daemon);
    ASSERT_TRUE(bob.ask("submit", submit_args("a"), 30s));
    for (const char* op : {"hold", "release", "cancel"})
        ASSERT_TRUE(bob.ask(op, {{"selector", "1"}, {"me", "ann"}}, 30s)) << op;
    ASSERT_TRUE(daemon.client().ask("drain", Json::object(), 30s));
    const auto reply = bob.ask("events", Json::object(), 30s);
    ASSERT_TRUE(reply);
    std::map<std::string, Json> by;
    for (const Json& event : (*reply)["events"])
        by[event["kind"]] = event["data"].value("by", Json());
    EXPECT_EQ(by["job_held"], "bob") << "the key says who it is";
    EXPECT_EQ(by["job_cancel_requested"], "bob");
    EXPECT_NE(by["dispatch_stopped"], "bob");
    EXPECT_TRUE(by["dispatch_stopped"].is_string());
}

TEST(Rolld, AStaleAttemptIsFencedAndThatIsRecordedOnce) {
    Daemon daemon;
    daemon.start();
    FakeWorker worker(daemon);
    worker.until([](const auto&) { return true; });
    ASSERT_TRUE(daemon.client().ask("submit", submit_args("a"), 30s));
    worker.report({JobId{1}, {99, 1}}, protocol::Phase::Running);
    for (int beats = 0; beats < 4; ++beats)
        worker.until([](const auto& answer) {
            return answer.fenced == std::vector<AttemptKey>{{JobId{1}, {99, 1}}};
        });
    const auto reply = daemon.client().ask("events", {{"id", 1}}, 30s);
    ASSERT_TRUE(reply);
    const auto fenced = std::ranges::count_if((*reply)["events"], [](const Json& event) {
        return event["kind"] == "attempt_fenced" && event["data"]["node"] == "node-1";
    });
    EXPECT_EQ(fenced, 1);
    const auto version = daemon.client().ask("version", Json::object(), 30s);
    EXPECT_GE(version.value()["fenced"], 4) << "one answer per heartbeat";
    EXPECT_EQ(version.value()["dispatches"]["count"], 1) << "the job that was submitted";
}

TEST(Rolld, WhatNothingCanRunIsToldWithItsSubmissionAndRefusedIfStrict) {
    Daemon daemon;
    daemon.start();
    io::Client client = daemon.client();
    const auto told = client.ask("submit", submit_args("a"), 30s);
    ASSERT_TRUE(told);
    EXPECT_EQ((*told)["cannot_run"]["why"], "no worker is connected");
    Json args = submit_args("b");
    args["strict"] = true;
    const auto refused = client.ask("submit", args, 30s);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::Refused);
    EXPECT_EQ(client.ask("jobs", Json::object(), 30s)->at("jobs").size(), 1u);
    FakeWorker worker(daemon);
    worker.until([](const auto&) { return true; });
    EXPECT_FALSE(client.ask("submit", args, 30s)->contains("cannot_run"));
}

TEST(Rolld, AUserThatAsksTooFastIsToldSoAndOthersAreServed) {
    Daemon daemon;
    daemon.start({"--rate-limit", "1"});
    io::Client owner = daemon.client();
    io::Client bob = client_of_bob(daemon);
    std::optional<Error> refused;
    for (int i = 0; i < 100 && !refused; ++i) {
        const auto reply = owner.ask("version", Json::object(), 30s);
        if (!reply) refused = reply.error();
    }
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->code, ErrorCode::Refused);
    EXPECT_NE(refused->message.find("too many requests; allowed: 1 a second"), std::string::npos);
    EXPECT_TRUE(bob.ask("version", Json::object(), 30s));
}

TEST(Rolld, ARevokedWorkerHearsNothingMore) {
    Daemon daemon;
    daemon.start();
    FakeWorker worker(daemon);
    worker.until([](const auto&) { return true; });
    worker.hear(500ms);
    std::filesystem::remove(daemon.directory().authorized() / "worker.pub");
    worker.beat();
    io::Client client = daemon.client();
    ASSERT_TRUE(client.ask("submit", submit_args("k1"), 30s));
    EXPECT_FALSE(worker.hear(1500ms));
}

TEST(Rolld, TheWireShowsNoJobName) {
    Daemon daemon;
    daemon.start({"--endpoint", "tcp://127.0.0.1:*"});
    const std::string endpoint = *daemon.directory().read_endpoint();
    const int target = std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
    WireTap tap(static_cast<std::uint16_t>(target));
    const auto keys = io::load_curve_keys(daemon.directory().keys(), "client");
    const auto server = io::load_public_key(daemon.directory().keys() / "server.pub");
    auto client =
        io::Client::connect("tcp://127.0.0.1:" + std::to_string(tap.port), *keys, *server);
    ASSERT_TRUE(client);
    const std::string name = "a-name-that-nobody-else-has";
    ASSERT_TRUE(client->ask("submit", submit_args("k1", name), 30s));
    const auto jobs = client->ask("jobs", Json::object(), 30s);
    ASSERT_TRUE(jobs);
    EXPECT_EQ((*jobs)["jobs"][0]["name"], name);
    const std::string seen = tap.seen();
    EXPECT_NE(seen.find("CURVE"), std::string::npos);
    EXPECT_GT(seen.size(), 1000u);
    EXPECT_EQ(seen.find("nobody-else"), std::string::npos);
    EXPECT_EQ(seen.find("submit"), std::string::npos);
}

TEST(Rolld, EventsAreHeldBackUntilThereIsOne) {
    Daemon daemon;
    daemon.start();
    io::Client client = daemon.client();
    const auto old = client.ask("events", {{"since", 0}}, 30s);
    ASSERT_TRUE(old) << old.error().message;
    std::thread later([&] {
        std::this_thread::sleep_for(300ms);
        io::Client other = daemon.client();
        EXPECT_TRUE(other.ask("submit", submit_args("k1"), 30s));
    });
    const auto fresh = client.ask("events", {{"since", (*old)["next"]}, {"wait_ms", 60'000}}, 70s);
    later.join();
    ASSERT_TRUE(fresh);
    EXPECT_EQ((*fresh)["events"][0]["kind"], "job_submitted");
}

TEST(Rolld, EndsCleanlyWhenAskedByAClientOrASignal) {
    Daemon daemon;
    daemon.start();
    io::Client client = daemon.client();
    EXPECT_TRUE(client.ask("shutdown", Json::object(), 30s));
    EXPECT_EQ(daemon.wait(), 0);
    daemon.start();
    EXPECT_EQ(daemon.end(SIGTERM), 0);
    EXPECT_FALSE(std::filesystem::exists(daemon.directory().pid("rolld")));
}

TEST(Rolld, ALedgerOlderThanItsBeaconIsRefused) {
    Daemon daemon;
    daemon.start();
    daemon.await_beacon();
    EXPECT_EQ(daemon.end(SIGTERM), 0);
    auto beacon = io::read_beacon(daemon.directory().beacon());
    ASSERT_TRUE(beacon) << beacon.error().message;
    EXPECT_EQ(beacon->incarnation, 1u);
    beacon->incarnation = 5;
    ASSERT_TRUE(io::write_beacon(daemon.directory().beacon(), *beacon));
    daemon.launch();
    EXPECT_EQ(daemon.wait(), 4);
}

// Replaces the beacon by that of a rolld on another machine.
io::Beacon foreign_beacon(const Daemon& daemon, std::uint64_t incarnation,
                          std::int64_t patience_ms = 0) {
    auto beacon = io::read_beacon(daemon.directory().beacon());
    EXPECT_TRUE(beacon);
    beacon->incarnation = incarnation;
    beacon->host = "elsewhere";
    beacon->counter = 4;
    beacon->patience_ms = patience_ms;
    EXPECT_TRUE(io::write_beacon(daemon.directory().beacon(), *beacon));
    return *beacon;
}

TEST(Rolld, ABeaconThatGrowsElsewhereIsRefusedEvenToATakeOver) {
    Daemon daemon;
    daemon.start();
    daemon.await_beacon();
    EXPECT_EQ(daemon.end(SIGTERM), 0);
    io::Beacon beacon = foreign_beacon(daemon, 2);
    daemon.launch({"--take-over", "--stillness", "2"});
    std::this_thread::sleep_for(1s);
    ++beacon.counter;
    ASSERT_TRUE(io::write_beacon(daemon.directory().beacon(), beacon));
    EXPECT_EQ(daemon.wait(), 4);
}

TEST(Rolld, ABeaconThatStandsStillElsewhereIsTakenOverOnlyWhenSaidSo) {
    Daemon daemon;
    daemon.start();
    daemon.await_beacon();
    EXPECT_EQ(daemon.end(SIGTERM), 0);
    foreign_beacon(daemon, 5);
    daemon.launch({"--stillness", "0.2"});
    EXPECT_EQ(daemon.wait(), 4);
    daemon.start({"--take-over", "--stillness", "0.2"});
    FakeWorker worker(daemon);
    worker.beat();
    const auto answer = worker.hear(kPatience);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->incarnation, 6u) << "at one more than the beacon's";
    auto client = daemon.client();
    ASSERT_TRUE(client.ask("submit", submit_args("k")));
    const auto job = client.ask("show", {{"id", 1}});
    ASSERT_TRUE(job);
    EXPECT_EQ((*job)["job"]["holds"][0]["rule"], "adopting");
    const auto seen = io::read_beacon(daemon.directory().beacon());
    EXPECT_EQ(seen->incarnation, 6u);
}

// The beacon says how long the older rolld may run without reading the beacon. The new rolld writes
// the same time, so that it is known after a restart.
TEST(Rolld, ATakeOverMindsThePatienceOfTheOlderOne) {
    Daemon daemon;
    daemon.start();
    daemon.await_beacon();
    EXPECT_EQ(daemon.end(SIGTERM), 0);
    foreign_beacon(daemon, 5, 60'000);
    const auto patience = [&] { return io::read_beacon(daemon.directory().beacon())->patience_ms; };
    daemon.start({"--take-over", "--stillness", "0.2", "--volume-patience", "9"});
    EXPECT_EQ(patience(), 60'000);
    EXPECT_EQ(daemon.end(SIGKILL), 128 + SIGKILL);
    daemon.start({"--volume-patience", "9"});
    EXPECT_EQ(patience(), 60'000) << "it still adopts";
}

TEST(Rolld, EndsWhenItCannotReadItsBeaconForAsLongAsItHasPatience) {
    Daemon daemon;
    daemon.start({"--volume-patience", "2"});
    FakeWorker worker(daemon);
    worker.until([](const auto&) { return true; });
    const auto beacon = daemon.directory().beacon();
    std::filesystem::remove(beacon);
    std::filesystem::create_directory(beacon);  // a directory cannot be read as a file
    ASSERT_TRUE(eventually([&] {
        worker.beat();
        int status = 0;
        return ::waitpid(daemon.pid(), &status, WNOHANG | WNOWAIT) != 0;
    }));
    EXPECT_NE(daemon.wait(), 0);
    const auto log = read_file(daemon.directory().log("rolld"));
    ASSERT_TRUE(log);
    EXPECT_NE(log->find("could not be read for 2 s"), std::string::npos);
}

TEST(Rolld, LeavesWhenTheBeaconShowsANewerOne) {
    Daemon daemon;
    daemon.start();
    FakeWorker worker(daemon);
    worker.until([](const auto&) { return true; });
    auto beacon = io::read_beacon(daemon.directory().beacon());
    ASSERT_TRUE(beacon);
    ++beacon->incarnation;
    ASSERT_TRUE(io::write_beacon(daemon.directory().beacon(), *beacon));
    const auto end = std::chrono::steady_clock::now() + kPatience;
    int status = 0;
    while (::waitpid(daemon.pid(), &status, WNOHANG | WNOWAIT) == 0 &&
           std::chrono::steady_clock::now() < end) {
        worker.beat();
        std::this_thread::sleep_for(100ms);
    }
    EXPECT_EQ(daemon.wait(), 4);
}

// Leases rule 18: a rolld that was suspended while another took over sends no answer afterwards.
TEST(Rolld, SaysNothingMoreAfterItStoodStillAndANewerOneCame) {
    Daemon daemon;
    daemon.start();
    FakeWorker worker(daemon);
    worker.until([](const auto&) { return true; });
    ASSERT_EQ(::kill(daemon.pid(), SIGSTOP), 0);
    while (worker.hear(100ms)) {}
    auto beacon = io::read_beacon(daemon.directory().beacon());
    ASSERT_TRUE(beacon);
    ++beacon->incarnation;
    ASSERT_TRUE(io::write_beacon(daemon.directory().beacon(), *beacon));
    std::this_thread::sleep_for(3500ms);
    worker.beat();
    ASSERT_EQ(::kill(daemon.pid(), SIGCONT), 0);
    EXPECT_FALSE(worker.hear(1s));
    EXPECT_EQ(daemon.wait(), 4);
}

}  // namespace
}  // namespace roll
