// Tests what rolld concludes about a silent worker of an allocation on node n1 from Slurm's reports
// about that node.
#include "daemon/pilots/desk.hpp"
#include "tests/daemon/core/site.hpp"

namespace roll::pilots {
namespace {

using namespace std::chrono_literals;
using slurm::NodeRow;
using slurm::QueueRow;

class Suspicion : public ::testing::Test {
  protected:
    Suspicion() {
        spec::JobSpec train = core::wants(1, 1, 8);
        train.kind = spec::JobKind::Train;
        job_ = site_.submit(train);
        site_.accept(1);
        worker_ = site_.pilot_comes(1, "n1.a1");
    }
    void fall_silent() {
        site_.tell(core::WorkerHeard{worker_, false});
        silent_ = {worker_};
        desk_.hurry(now_);
    }
    // Runs a turn. Returns whether the job's attempt was given up in this turn.
    bool turn() {
        for (const core::Input& input : desk_.gone(site_.state, silent_, now_)) site_.tell(input);
        errand_ = desk_.next(site_.state, now_);
        return site_.job(job_).past.size() == 1;
    }
    bool passes(std::chrono::milliseconds time) {
        now_ += time;
        return turn();
    }
    template <class Wanted>
    bool asks() const {
        return errand_ && std::holds_alternative<Wanted>(*errand_);
    }
    void answer(const Outcome& outcome) {
        for (const core::Input& input : desk_.take(outcome, site_.state, now_)) site_.tell(input);
    }
    void node_is(const std::string& state, const std::string& node = "n1") {
        answer(NodesTold{std::vector<NodeRow>{{node, state, slurm::is_down(state)}}});
    }
    void job_is(const std::string& state, int nodes = 1) {
        answer(Polled{std::vector<QueueRow>{{"slurm-1",
                                             state,
                                             slurm::phase_of(state),
                                             "None",
                                             {},
                                             {},
                                             nodes,
                                             "roll:alloc=c1.1.1"}}});
    }
    // Completes the first poll of a rolld.
    void settle() {
        turn();
        ASSERT_TRUE(asks<Poll>());
        job_is("RUNNING");
    }

    core::Site site_;
    Instant now_{1h};
    Desk desk_{"c1", DeskRules{}, now_};
    JobId job_;
    WorkerId worker_;
    std::set<WorkerId> silent_;
    std::optional<Errand> errand_;
};

TEST_F(Suspicion, BothAnswersGiveUpWhatTrainsThere) {
    settle();
    fall_silent();
    EXPECT_FALSE(turn());
    ASSERT_TRUE(asks<AskNodes>());
    EXPECT_EQ(std::get<AskNodes>(*errand_).nodes, std::vector<std::string>{"n1"});
    node_is("DOWN*");
    EXPECT_FALSE(turn()) << "one answer is not enough";
    ASSERT_TRUE(asks<Poll>()) << "though the last squeue was a moment ago";
    job_is("NODE_FAIL");
    EXPECT_TRUE(turn());
    EXPECT_EQ(site_.job(job_).past.at(0).reason,
              "Slurm says that node n1 is down, and its worker is silent");
}

TEST_F(Suspicion, WhoIsHeardIsNotAskedAbout) {
    settle();
    for (int i = 0; i < 10; ++i) {
        EXPECT_FALSE(passes(1s));
        EXPECT_FALSE(asks<AskNodes>());
    }
}

TEST_F(Suspicion, EachAnswerAloneOrNoneGivesUpNothing) {
    settle();
    fall_silent();
    turn();
    node_is("DOWN");
    turn();
    job_is("RUNNING");
    EXPECT_FALSE(passes(3s));
    ASSERT_TRUE(asks<AskNodes>());
    while (!asks<Poll>()) {
        if (asks<AskNodes>()) node_is("MIXED");
        EXPECT_FALSE(passes(1s));
    }
    job_is("NODE_FAIL");
    while (!asks<AskNodes>()) EXPECT_FALSE(passes(1s));
    for (const NodesTold& told :
         {NodesTold{fail(ErrorCode::Unavailable, "away")}, NodesTold{std::vector<NodeRow>{}},
          NodesTold{std::vector<NodeRow>{{"n2", "DOWN", true}}}}) {
        ASSERT_TRUE(asks<AskNodes>());
        answer(told);
        EXPECT_FALSE(turn());
        while (!asks<AskNodes>()) {
            if (asks<Poll>()) job_is("NODE_FAIL");
            EXPECT_FALSE(passes(1s));
        }
    }
}

// An answer to a question that was asked before the worker was heard from proves nothing about the
// worker's present silence.
TEST_F(Suspicion, AWordInBetweenMakesAllForgotten) {
    settle();
    fall_silent();
    turn();
    ASSERT_TRUE(asks<AskNodes>());
    silent_.clear();
    turn();
    fall_silent();
    turn();
    node_is("DOWN");
    EXPECT_FALSE(turn());
    EXPECT_FALSE(asks<Poll>());
    now_ += 3s;
    turn();
    node_is("DOWN");
    turn();
    ASSERT_TRUE(asks<Poll>());
    silent_.clear();
    turn();
    fall_silent();
    job_is("NODE_FAIL");
    EXPECT_FALSE(turn());
}

TEST_F(Suspicion, AsksEachThreeSecondsForAMinute) {
    settle();
    fall_silent();
    int asked = 0;
    for (int seconds = 0; seconds < 120; ++seconds) {
        for (turn(); errand_; turn()) {
            if (!asks<AskNodes>()) {
                job_is("RUNNING");
                continue;
            }
            ++asked;
            EXPECT_EQ(seconds % 3, 0);
            node_is("MIXED");
        }
        now_ += 1s;
    }
    EXPECT_EQ(asked, 20);
}

TEST_F(Suspicion, WakesTheLoopForItsQuestions) {
    settle();
    fall_silent();
    turn();
    node_is("MIXED");
    EXPECT_EQ(desk_.wakeup(site_.state), now_ + 3s);
}

// With --no-kill, an allocation of two nodes continues with one.
TEST(Suspicions, AnAllocationThatGoesOnWithFewerNodesHasLostOne) {
    spec::PilotQueue two = core::gpu_queue();
    two.nodes = 2;
    core::Site site(two);
    spec::JobSpec train = core::wants(1, 1, 8);
    train.kind = spec::JobKind::Train;
    const JobId job = site.submit(train);
    site.accept(1);
    const WorkerId worker = site.pilot_comes(1, "n1.a1");
    Desk desk("c1", DeskRules{}, Instant{1h});
    site.tell(core::WorkerHeard{worker, false});
    const auto turn = [&] {
        for (const core::Input& input : desk.gone(site.state, {worker}, Instant{1h}))
            site.tell(input);
        return desk.next(site.state, Instant{1h});
    };
    const auto polled = [&](int nodes) {
        return Polled{std::vector<QueueRow>{{"slurm-1",
                                             "RUNNING",
                                             slurm::Phase::Running,
                                             "None",
                                             {},
                                             {},
                                             nodes,
                                             "roll:alloc=c1.1.1"}}};
    };
    turn();
    desk.take(polled(2), site.state, Instant{1h});
    turn();
    desk.take(NodesTold{std::vector<NodeRow>{{"n1", "DOWN", true}}}, site.state, Instant{1h});
    turn();
    desk.take(polled(1), site.state, Instant{1h});
    turn();
    EXPECT_EQ(site.job(job).past.size(), 1U);
}

}  // namespace
}  // namespace roll::pilots
