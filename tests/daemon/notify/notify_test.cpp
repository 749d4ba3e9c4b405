#include <fstream>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "daemon/notify/courier.hpp"
#include "daemon/notify/notice.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::notify {
namespace {

using namespace std::chrono_literals;

TEST(Url, ReadsHostPortAndPath) {
    EXPECT_EQ(parse_url("http://h")->port, "80");
    const Url url = *parse_url("http://[::1]:8080/a/b?c=d");
    EXPECT_EQ(url.host + " " + url.port + " " + url.path, "::1 8080 /a/b?c=d");
    const Url secure = *parse_url("https://h.example/x");
    EXPECT_TRUE(secure.tls && !url.tls);
    EXPECT_EQ(secure.host + " " + secure.port + " " + secure.path, "h.example 443 /x");
    for (const char* bad : {"ftp://h", "h", "http://", "http://h:0", "http://h:70000", "http://u@h",
                            "http://h/a b", "http://h/\r\nX: y"})
        EXPECT_FALSE(parse_url(bad).has_value()) << bad;
}

TEST(Targets, NameTheEntryOfAProblem) {
    const auto problem = [](const std::string& entry) {
        const auto read = read_targets("targets: [" + entry + "]", "notify.yaml");
        return read ? std::string() : read.error().message;
    };
    EXPECT_EQ(problem("{name: a, url: 'http://h', on: [failed], users: [ann], timeout: 5s}"), "");
    EXPECT_EQ(problem("{name: a}"),
              "notify.yaml: targets[0] must have `url` or `command`, but not both");
    EXPECT_EQ(problem("{name: a, url: 'http://h', on: [exploded]}"),
              "notify.yaml: targets[0].on is exploded; allowed: submitted, started, ended, failed, "
              "requeued, checkpointed");
    EXPECT_EQ(problem("{name: a, url: 'http://h'}, {name: a, url: 'http://h'}"),
              "notify.yaml: two targets are named a");
    EXPECT_NE(problem("{name: a, url: 'http://h', user: b}").find("targets[0]"), std::string::npos);
    EXPECT_EQ(problem("{name: a, url: 'http://h', ca_file: /etc/hosts}"),
              "notify.yaml: targets[0].ca_file is /etc/hosts; allowed: only with an https url");
    EXPECT_EQ(problem("{name: a, url: 'https://h', ca_file: /etc/hosts}"),
              "notify.yaml: targets[0].ca_file is /etc/hosts, which has no certificate in PEM");
    EXPECT_FALSE(read_targets("other: 1", "notify.yaml").has_value());
}

Json event(std::int64_t seq, const std::string& kind, const Json& data = Json::object()) {
    return {{"seq", seq}, {"at", "t"}, {"kind", kind}, {"job", 7u}, {"text", "x"}, {"data", data}};
}

TEST(Wants, AllFiltersMustLetAnEventThrough) {
    const Json ended = event(1, "job_ended", {{"phase", "failed"}});
    const Json job = {{"user", "ann"}, {"kind", "train"}};
    Target target{.name = "a", .on = {"ended"}};
    EXPECT_TRUE(wants(target, ended, job));
    EXPECT_FALSE(wants(target, event(2, "attempt_started"), job));
    EXPECT_FALSE(wants(target, event(3, "policy_set"), job));
    target.on = {"failed"};
    EXPECT_TRUE(wants(target, ended, job));
    EXPECT_FALSE(wants(target, event(4, "job_ended", {{"phase", "done"}}), job));
    target.users = {"bob"};
    EXPECT_FALSE(wants(target, ended, job));
    target.users = {"bob", "ann"};
    target.kinds = {"command"};
    EXPECT_FALSE(wants(target, ended, job));
    target.kinds.clear();
    target.outcomes = {"cancelled"};
    EXPECT_FALSE(wants(target, ended, job));
    target.outcomes.clear();
    EXPECT_FALSE(wants(target, ended, Json()));  // nothing is known of its user
}

TEST(Signature, IsHmacSha256) {
    // RFC 4231, test case 2
    EXPECT_EQ(signature("Jefe", "what do ya want for nothing?"),
              "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Backoff, DoublesUpToFiveMinutes) {
    EXPECT_EQ(backoff(1), 1s);
    EXPECT_EQ(backoff(2), 2s);
    EXPECT_EQ(backoff(9), 256s);
    EXPECT_EQ(backoff(10), 300s);
    EXPECT_EQ(backoff(1'000'000), 300s);
}

// A courier of a ledger whose events are ends of jobs, except that events 3, 6, ... are others.
class CourierTest : public ::testing::Test {
  protected:
    Courier courier() {
        return Courier(
            {.name = "a", .on = {"ended"}, .give_up = 60s}, folder / "a.position",
            [this](const std::string& op, const Json& args) -> Result<Json> {
                if (op == "jobs") return Json{{"jobs", {{{"id", 7u}, {"user", "ann"}}}}};
                Json events = Json::array();
                const bool tail = args.contains("newest");
                for (std::int64_t seq = tail ? newest : args["since"].get<std::int64_t>() + 1;
                     seq <= newest; ++seq)
                    events.push_back(event(seq, seq % 3 == 0 ? "job_due" : "job_ended"));
                return Json{{"events", events}, {"next", newest}};
            },
            [this](const Target&, const Delivery& delivery) -> Result<void> {
                tried.push_back(delivery.seq);
                if (down) return fail(ErrorCode::Failed, "down");
                return {};
            });
    }

    TemporaryFolder folder;
    std::int64_t newest = 10;
    bool down = false;
    std::vector<std::int64_t> tried;
};

TEST_F(CourierTest, StartsAfterTheNewestEventAndGoesOnAfterARestart) {
    const auto now = Courier::Clock::now();
    {
        Courier first = courier();
        ASSERT_TRUE(first.open().has_value());
        EXPECT_TRUE(first.work(now));
        EXPECT_TRUE(tried.empty());
        newest = 13;
        first.work(now);
    }
    newest = 14;
    Courier second = courier();
    ASSERT_TRUE(second.open().has_value());
    second.work(now);
    EXPECT_EQ(tried, (std::vector<std::int64_t>{11, 13, 14}));
}

TEST_F(CourierTest, RetriesInOrderWithPausesAndGivesUpAtLast) {
    const auto begin = Courier::Clock::now();
    Courier one = courier();
    ASSERT_TRUE(one.open().has_value());
    newest = 13;
    down = true;
    one.work(begin);
    one.work(begin + 500ms);
    EXPECT_EQ(tried, (std::vector<std::int64_t>{11}));
    one.work(begin + 1s);
    EXPECT_EQ(one.due(), begin + 3s);
    EXPECT_EQ(tried, (std::vector<std::int64_t>{11, 11}));
    down = false;
    one.work(begin + 3s);
    EXPECT_EQ(tried, (std::vector<std::int64_t>{11, 11, 11, 13}));
    down = true;
    newest = 14;
    one.work(begin + 4s);
    one.work(begin + 70s);
    EXPECT_EQ(one.position(), 14);
}

TEST_F(CourierTest, StartsAnewIfTheLedgerIsOlderThanItsPosition) {
    std::ofstream(folder / "a.position") << "500\n";
    Courier one = courier();
    ASSERT_TRUE(one.open().has_value());
    EXPECT_EQ(one.position(), 10);
    EXPECT_EQ(*read_file(folder / "a.position"), "10\n");
    std::ofstream(folder / "a.position") << "x";
    EXPECT_FALSE(courier().open().has_value());
}

}  // namespace
}  // namespace roll::notify
