// Hostile input on rolld's real sockets, and peers of other releases.
#include <random>

#include "common/io/local_stream.hpp"
#include "common/protocol/client.hpp"
#include "tests/daemon/server/daemon.hpp"

namespace roll {
namespace {

// Starts a job on the worker and returns its attempt.
AttemptKey start_job(Daemon& daemon, FakeWorker& worker) {
    worker.until([](const auto&) { return true; });
    EXPECT_TRUE(daemon.client().ask("submit", submit_args("k"), 30s));
    return worker.until([](const auto& a) { return !a.start.empty(); }).start.front().attempt;
}

// A client that sends frames made by the test.
class RawClient {
  public:
    explicit RawClient(const Daemon& daemon) : socket_(context_, io::ZmqType::Dealer) {
        const auto keys = io::load_curve_keys(daemon.directory().keys(), "client");
        const auto server = io::load_public_key(daemon.directory().keys() / "server.pub");
        EXPECT_TRUE(keys && server);
        socket_.set_curve_client(*keys, *server);
        EXPECT_TRUE(socket_.connect(*daemon.directory().read_endpoint()));
    }
    void send(const std::string& frame) { socket_.send({frame}); }
    Json ask(const std::string& frame) {
        send(frame);
        if (!socket_.wait_input(kPatience)) return "no reply";
        return Json::parse(socket_.receive()->frames.back());
    }
    bool answers(std::chrono::milliseconds time) {
        send(protocol::encode(protocol::Request{1, "version"}));
        return socket_.wait_input(time);
    }

  private:
    io::ZmqContext context_;
    io::ZmqSocket socket_;
};

std::string state_of(Daemon& daemon, std::uint64_t job) {
    const auto shown = daemon.client().ask("show", {{"id", job}}, 30s);
    return shown ? (*shown)["job"]["state"].get<std::string>() : shown.error().message;
}

TEST(Wire, AWorkerOneVersionOlderGoesOnWorking) {
    Daemon daemon;
    daemon.start();
    FakeWorker worker(daemon);
    worker.heartbeat.version = protocol::kOldestVersion;
    ASSERT_LT(protocol::kOldestVersion, protocol::kVersion);
    // An older release does not send fields that it does not know.
    worker.encode = [](const protocol::Heartbeat& heartbeat) {
        Json json = Json::parse(protocol::encode(heartbeat));
        json.erase("beat_ms");
        return json.dump();
    };
    const AttemptKey attempt = start_job(daemon, worker);
    worker.report(attempt, protocol::Phase::Running);
    const auto answer = worker.until([](const auto& a) { return !a.keep.empty(); });
    EXPECT_EQ(answer.version, protocol::kOldestVersion) << "it is answered in its own version";
    worker.report(attempt, protocol::Phase::Ended, Outcome::Done);
    worker.until([](const auto& a) { return a.keep.empty(); });
    EXPECT_TRUE(eventually([&] { return state_of(daemon, 1) == "done"; }));
}

Json secret_args(const std::string& value) {
    return {{"user", "ann"}, {"name", "TOKEN"}, {"value", value}};
}

Json submit_with_secret() {
    Json args = submit_args("k");
    args["spec"]["secrets"] = {"TOKEN"};
    return args;
}

TEST(Wire, ASecretGoesOutInTheStartOrderAndNowhereElse) {
    Daemon daemon;
    daemon.start();
    io::Client client = daemon.client();
    const auto early = client.ask("submit", submit_with_secret(), 30s);
    EXPECT_EQ(early.error().message, "ann has no secret TOKEN");
    ASSERT_TRUE(client.ask("secret_set", secret_args("s3cret-value"), 30s));
    FakeWorker worker(daemon);
    worker.until([](const auto&) { return true; });
    ASSERT_TRUE(client.ask("submit", submit_with_secret(), 30s));
    const auto order = worker.until([](const auto& a) { return !a.start.empty(); }).start.front();
    EXPECT_EQ(order.secrets, (std::map<std::string, std::string>{{"TOKEN", "s3cret-value"}}));
    EXPECT_EQ(order.document.find("s3cret"), std::string::npos);
    // Remove the secret before the worker has reported that the job started.
    ASSERT_TRUE(client.ask("secret_remove", secret_args(""), 30s));
    const auto later = worker.until(
        [](const auto& a) { return !a.start.empty() && !a.start.front().refused.empty(); });
    EXPECT_EQ(later.start.front().refused, "user ann no longer has a secret TOKEN");
    EXPECT_TRUE(later.start.front().secrets.empty());
    for (const char* op : {"show", "events", "secret_list", "jobs"})
        EXPECT_EQ(client.ask(op, {{"id", 1}}, 30s)->dump().find("s3cret"), std::string::npos) << op;
    daemon.end(SIGTERM);
    for (const auto& file : std::filesystem::recursive_directory_iterator(daemon.root)) {
        if (!file.is_regular_file()) continue;
        EXPECT_EQ(read_file(file.path())->find("s3cret"), std::string::npos) << file.path();
    }
}

TEST(Wire, AWorkerThatCannotBeGivenSecretsGetsNoJobThatHasSome) {
    Daemon daemon;
    daemon.start();
    io::Client client = daemon.client();
    FakeWorker worker(daemon);
    worker.heartbeat.version = protocol::kSecretsVersion - 1;
    worker.until([](const auto&) { return true; });
    ASSERT_TRUE(client.ask("secret_set", secret_args("s3cret-value"), 30s));
    ASSERT_TRUE(client.ask("submit", submit_with_secret(), 30s));
    EXPECT_TRUE(eventually([&] {
        worker.beat();
        const auto answer = worker.hear(100ms);
        EXPECT_TRUE(!answer || answer->start.empty());
        const auto shown = client.ask("show", {{"id", 1}}, 30s);
        const Json attempts = (*shown)["job"]["attempts"];
        return !attempts.empty() &&
               attempts[0]
                       .value("reason", Json())
                       .dump()
                       .find("older release, which cannot receive secrets") != std::string::npos;
    }));
}

TEST(Wire, AWorkerWithoutAFeatureGetsNoJobThatNeedsIt) {
    Daemon daemon;
    daemon.start();
    io::Client client = daemon.client();
    FakeWorker old(daemon);
    old.heartbeat.features = {};
    old.until([](const auto&) { return true; });
    Json args = submit_args("k");
    args["spec"]["needs"] = {"gangs"};
    ASSERT_TRUE(client.ask("submit", args, 30s));
    EXPECT_TRUE(eventually([&] {
        old.beat();
        const auto answer = old.hear(100ms);
        EXPECT_TRUE(!answer || answer->start.empty());
        const Json job = (*client.ask("show", {{"id", 1}}, 30s))["job"];
        return !job["attempts"].empty() &&
               job["attempts"][0].value("reason", Json()).dump().find("lacks the feature gangs") !=
                   std::string::npos;
    }));
    old.heartbeat.features = {"gangs", "more"};
    EXPECT_FALSE(old.until([](const auto& a) { return !a.start.empty(); }).start.empty());
}

TEST(Wire, AnOlderClientIsAnsweredInItsVersionAndANewerOneIsRefused) {
    Daemon daemon;
    daemon.start();
    RawClient client(daemon);
    for (int version = 0; version <= protocol::kVersion + 1; ++version) {
        protocol::Request request{7, "version"};
        request.version = version;
        const Json reply = client.ask(protocol::encode(request));
        const bool known = version >= protocol::kOldestVersion && version <= protocol::kVersion;
        EXPECT_EQ(reply.contains("ok"), known) << reply;
        if (!known) continue;
        EXPECT_EQ(reply["v"], version);
    }
}

TEST(Wire, ReplayedHeartbeatsChangeNothing) {
    Daemon daemon;
    daemon.start();
    FakeWorker worker(daemon);
    const AttemptKey attempt = start_job(daemon, worker);
    worker.report(attempt, protocol::Phase::Running);
    worker.until([](const auto& a) { return !a.keep.empty(); });
    protocol::Heartbeat old = worker.heartbeat;
    old.sequence = 1;
    old.running.front().phase = protocol::Phase::Ended;
    old.running.front().outcome = Outcome::App;
    for (int i = 0; i < 20; ++i) worker.send(protocol::encode(old));
    worker.until([](const auto& a) { return !a.keep.empty(); });
    EXPECT_EQ(state_of(daemon, 1), "running");
}

TEST(Wire, AMessageThatIsTooLargeIsAnsweredWithTheLimitAndTheClientIsNamed) {
    Daemon daemon;
    daemon.start();
    RawClient client(daemon);
    const protocol::Request large{7, "show", {{"id", std::string(64 << 20, 'x')}}};
    const Json reply = client.ask(protocol::encode(large));
    ASSERT_TRUE(reply.is_object()) << reply;
    EXPECT_EQ(reply["id"], 7);
    EXPECT_NE(reply["error"].dump().find("the message has 67108"), std::string::npos) << reply;
    EXPECT_NE(reply["error"].dump().find("allowed: at most 16777216"), std::string::npos) << reply;
    EXPECT_TRUE(client.answers(30s)) << "the connection stays open";
    const std::string log = *read_file(daemon.directory().log("rolld"));
    EXPECT_NE(log.find("rolld refused a message from user "), std::string::npos) << log;
}

// Frames with changed, cut and doubled bytes. rolld must answer or refuse each, keep running, and
// queue no job.
TEST(Wire, FuzzedFramesDoNoHarm) {
    Daemon daemon;
    daemon.start({"--rate-limit", "0"});
    FakeWorker worker(daemon);
    const AttemptKey attempt = start_job(daemon, worker);
    worker.report(attempt, protocol::Phase::Running);
    RawClient client(daemon);
    std::mt19937 random(7);
    const std::string heartbeat = protocol::encode(worker.heartbeat);
    const std::string request =
        protocol::encode(protocol::Request{7, "cancel", {{"selector", "nobody"}}});
    for (int i = 0; i < 3000; ++i) {
        std::string frame = i % 2 == 0 ? heartbeat : request;
        for (unsigned n = random() % 4; n > 0 && !frame.empty(); --n) {
            const std::size_t at = random() % frame.size();
            switch (random() % 4) {
                case 0: frame[at] = static_cast<char>(random()); break;
                case 1: frame.resize(at); break;
                case 2: frame.insert(at, frame.substr(0, at)); break;
                default: frame[at] = static_cast<char>('0' + random() % 10);
            }
        }
        if (i % 2 == 0) worker.send(frame);
        if (i % 2 == 1) client.send(frame);
    }
    EXPECT_TRUE(eventually([&] {
        const auto jobs = daemon.client().ask("jobs", {{"all", true}}, 30s);
        return jobs && (*jobs)["jobs"].size() == 1;
    }));
    EXPECT_TRUE(daemon.client().ask("submit", submit_args("after"), 30s));
}

TEST(Wire, ConnectionsBeyondTheLimitAreTurnedAway) {
    Daemon daemon;
    daemon.start({"--max-connections", "10"});
    std::vector<std::unique_ptr<RawClient>> clients;
    int served = 0;
    for (int i = 0; i < 14; ++i) {
        clients.push_back(std::make_unique<RawClient>(daemon));
        served += clients.back()->answers(500ms);
    }
    EXPECT_GE(served, 5);
    EXPECT_LE(served, 10);
    clients.clear();
    EXPECT_TRUE(eventually([&] {
        return daemon.client().ask("version", Json::object(), 1s).has_value();
    })) << "there is room again";
}

// Returns the path of the socket for clients on this machine.
std::string local_socket(const Daemon& daemon) { return *daemon.directory().local_socket(); }

// Sends `bytes` in pieces. Returns all that rolld sends until it closes the connection, or within 2
// s.
std::string answer_to(const Daemon& daemon, const std::string& bytes, std::size_t piece) {
    const io::Descriptor socket = io::connect_unix(local_socket(daemon));
    EXPECT_TRUE(socket);
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
        const std::string part = bytes.substr(at, piece);
        if (::send(socket.get(), part.data(), part.size(), MSG_NOSIGNAL) < 0) break;
    }
    ::shutdown(socket.get(), SHUT_WR);
    std::string all;
    char buffer[4096];
    pollfd item{socket.get(), POLLIN, 0};
    while (::poll(&item, 1, 2000) > 0) {
        const auto some = ::recv(socket.get(), buffer, sizeof buffer, 0);
        if (some <= 0) return all;
        all.append(buffer, static_cast<std::size_t>(some));
    }
    return all + " and no end";
}

TEST(Local, AFrameMayComeInPiecesAndOneThatIsTooLargeIsRefused) {
    Daemon daemon;
    daemon.start();
    const std::string asked = protocol::encode(protocol::Request{7, "dance"});
    const std::string two = io::with_length(asked) + io::with_length(asked);
    io::Client client = daemon.client();
    {
        auto stream = io::LocalStream::connect(local_socket(daemon));
        ASSERT_TRUE(stream && stream->send(asked));
        const auto reply = stream->receive(30s);
        ASSERT_TRUE(reply);
        EXPECT_NE(reply->find("rolld knows no operation dance"), std::string::npos);
        EXPECT_TRUE(stream->send("no JSON"));
        EXPECT_TRUE(stream->receive(30s)) << "and is still served";
    }
    answer_to(daemon, two, 1);
    const std::string refusal = answer_to(daemon, "\xff\xff\xff\xff" + two, 4096);
    EXPECT_NE(refusal.find("the message has 4294967295 bytes; allowed: at most 16777216"),
              std::string::npos)
        << refusal;
    EXPECT_EQ(refusal.find("and no end"), std::string::npos) << "the connection stays open";
    EXPECT_TRUE(client.ask("version", Json::object(), 30s));
}

TEST(Local, FuzzedBytesDoNoHarm) {
    Daemon daemon;
    daemon.start({"--rate-limit", "0"});
    std::mt19937 random(11);
    const std::string frame =
        io::with_length(protocol::encode(protocol::Request{7, "cancel", {{"selector", "nobody"}}}));
    for (int i = 0; i < 300; ++i) {
        std::string bytes = frame + frame;
        for (unsigned n = random() % 4; n > 0; --n)
            bytes[random() % bytes.size()] = static_cast<char>(random());
        bytes.resize(random() % bytes.size());
        const io::Descriptor socket = io::connect_unix(local_socket(daemon));
        ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    EXPECT_TRUE(daemon.client().ask("submit", submit_args("after"), 30s));
}

TEST(Local, ConnectionsBeyondTheLimitAreTurnedAway) {
    Daemon daemon;
    daemon.start({"--max-connections", "3"});
    std::vector<io::LocalStream> clients;
    int served = 0;
    for (int i = 0; i < 6; ++i) {
        auto stream = io::LocalStream::connect(local_socket(daemon));
        ASSERT_TRUE(stream);
        const bool sent = stream->send(protocol::encode(protocol::Request{1, "version"}));
        served += sent && stream->receive(30s).has_value();
        clients.push_back(*std::move(stream));
    }
    EXPECT_EQ(served, 3);
    clients.clear();
    EXPECT_TRUE(eventually([&] {
        return daemon.client().ask("version", Json::object(), 1s).has_value();
    })) << "there is room again";
}

// Needs root, to connect as another user. The directory and the socket have permissions for all
// users, so that only rolld's check of the uid can refuse.
TEST(Local, AnotherUsersProcessIsTurnedAway) {
    if (::geteuid() != 0) GTEST_SKIP() << "takes root, to become somebody else";
    Daemon daemon;
    daemon.start();
    const std::string path = local_socket(daemon);
    std::filesystem::permissions(daemon.root, std::filesystem::perms(0711));
    std::filesystem::permissions(path, std::filesystem::perms(0666));
    const std::string frame = io::with_length(protocol::encode(protocol::Request{1, "version"}));
    const auto served_as = [&](uid_t uid) {
        const pid_t child = ::fork();
        if (child == 0) {
            if (::setuid(uid) != 0) ::_exit(2);
            const io::Descriptor socket = io::connect_unix(path);
            char byte = 0;
            const bool sent =
                socket && ::send(socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL) > 0;
            ::_exit(socket ? sent && ::recv(socket.get(), &byte, 1, 0) == 1 : 2);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        return WEXITSTATUS(status);
    };
    EXPECT_EQ(served_as(0), 1);
    EXPECT_EQ(served_as(65534), 0);
}

}  // namespace
}  // namespace roll
