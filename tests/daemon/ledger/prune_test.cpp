// Tests the pruning of histories with all kinds of references between jobs, at each time that makes
// a difference.
#include "daemon/ledger/prune.hpp"

#include <random>

#include <gtest/gtest.h>

#include "common/spec/schema/array.hpp"
#include "daemon/ledger/event_json.hpp"
#include "tests/daemon/core/desk.hpp"

namespace roll::ledger {
namespace {

using namespace std::chrono_literals;
using core::JobPhase;
using core::Outcome;

class History {
  public:
    explicit History(unsigned seed) : random_(seed) {
        desk_.careful = false;
        for (const char* node : {"a", "b", "c"}) join(node);
        for (int i = 0; i < 120; ++i) {
            step();
            desk_.now += 1min * below(30);
            keep(desk_.tell(core::Tick{}));
        }
    }
    const core::State& state() const { return desk_.state; }

    // Returns the state of a ledger that lacks the events of these jobs.
    core::State without(const std::set<JobId>& jobs) const {
        core::State state;
        for (const core::Event& event : events_) {
            const auto job = job_of(event);
            if (!job || !jobs.contains(*job)) core::apply(state, event);
        }
        return state;
    }

  private:
    int below(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }
    void keep(const core::Events& events) {
        events_.insert(events_.end(), events.begin(), events.end());
    }
    void join(const std::string& node) {
        keep(desk_.tell(
            core::WorkerHello{node, node + std::to_string(desk_.state.next_worker), 2, 0}));
    }
    JobId any() {
        return std::next(desk_.state.jobs.begin(), below(static_cast<int>(desk_.state.jobs.size())))
            ->first;
    }
    spec::JobSpec fresh() {
        spec::JobSpec spec = core::wants(1, 1);
        spec.output = "/o";
        spec.document = "{}";
        spec.retry = {.infra = 1, .app = 0};
        if (desk_.state.jobs.empty()) return spec;
        if (below(3) == 0) spec.after = {{spec::After::Condition::Any, any()}};
        if (below(6) == 0) spec.source_job = any();
        return spec;
    }
    void submit() {
        spec::JobSpec spec = fresh();
        const int what = below(8);
        if (what < 2) spec.export_document = "{}";
        if (what == 2) spec.array = spec::Array{"0-2"};
        if (what == 3) spec.then = {fresh()};
        if (what == 4) spec.secrets = {};
        if (what > 4 && what < 7) {
            spec.after.clear();
            spec.source_job.reset();
            what == 5 ? void(spec.cron = "*/20 * * * *") : void(spec.open = true);
        }
        for (const auto& [id, job] : desk_.state.jobs) {
            if (what == 7 && job.spec.open && !job.closed && !core::is_over(job.phase))
                spec.into = id;
        }
        const core::Submit input{"k" + std::to_string(++keys_), "ann", spec};
        if (core::decide(desk_.state, input, desk_.now)) keep(desk_.tell(input));
    }
    void end_one() {
        const std::set<JobId> running = desk_.state.index.running;
        if (running.empty()) return submit();
        const JobId id = *std::next(running.begin(), below(static_cast<int>(running.size())));
        const auto& attempt = *desk_.job(id).attempt;
        const Outcome how = below(4) == 0 ? Outcome::App : Outcome::Done;
        keep(desk_.tell(core::MemberExited{attempt.places.front().worker,
                                           {id, attempt.token},
                                           how,
                                           how == Outcome::Done ? 0 : 1,
                                           ""}));
    }
    void step() {
        switch (below(10)) {
            case 0: return keep(desk_.tell(core::Cancel{any_or_new(), ""}));
            case 1: return close_one();
            case 2: return join(std::string(1, static_cast<char>('a' + below(3))));
            case 3:
            case 4:
            case 5:
            case 6: return end_one();
            default: return submit();
        }
    }
    JobId any_or_new() {
        while (desk_.state.jobs.empty()) submit();
        return any();
    }
    void close_one() {
        for (const auto& [id, job] : desk_.state.jobs)
            if (job.spec.open && !job.closed && !core::is_over(job.phase))
                return keep(desk_.tell(core::Close{id}));
    }

    std::mt19937 random_;
    core::Desk desk_;
    core::Events events_{core::IncarnationRaised{1, Time{1h}}};
    int keys_ = 0;
};

TEST(Prune, LeavesWhatCanBeReadWhereverItCuts) {
    std::size_t cuts = 0;
    std::size_t crons = 0;
    for (unsigned seed = 0; seed < 60; ++seed) {
        const History history(seed);
        ASSERT_EQ(history.without({}), history.state()) << "seed " << seed;
        std::set<Time> ends;
        for (const auto& [id, job] : history.state().jobs) {
            if (job.ended_at) ends.insert(*job.ended_at + 1ms);
            crons += job.cron_last != JobId{};
        }
        for (const Time end : ends) {
            const auto jobs = forgettable(history.state(), end);
            cuts += !jobs.empty();
            const core::State left = history.without(jobs);
            core::check_invariants(left);
            for (const auto& [id, job] : left.jobs)
                ASSERT_EQ(job.phase, history.state().jobs.at(id).phase) << "seed " << seed;
            for (const core::Rule rule : core::rules())
                EXPECT_TRUE(rule(left, left.jobs.rbegin()->second.submitted_at).empty());
        }
    }
    EXPECT_GT(cuts, 500u);
    EXPECT_GT(crons, 50u);
}

// An earlier rolld has pruned the cron job, but not the job that it queued.
TEST(Prune, AJobWhoseCronJobIsGoneCanBeRead) {
    core::State state;
    spec::JobSpec spec;
    spec.name = "j";
    spec.output = "/o";
    core::apply(state, core::JobSubmitted{JobId{2}, "", "ann", spec, Time{1h}, {}, JobId{1}});
    EXPECT_TRUE(state.jobs.contains(JobId{2}));
    EXPECT_FALSE(state.jobs.contains(JobId{1}));
}

TEST(Prune, ACronJobStaysWithTheLastThatCameOfIt) {
    core::Desk desk;
    spec::JobSpec spec = core::wants(1, 1);
    spec.cron = "* * * * *";
    const JobId cron = desk.submit(spec);
    desk.pass(2min);
    const JobId child = desk.job(cron).cron_last;
    ASSERT_NE(child, JobId{});
    desk.tell(core::Cancel{cron, ""});
    desk.submit(core::wants(1, 1));
    EXPECT_EQ(forgettable(desk.state, desk.now + 1h), std::set<JobId>{});
    desk.tell(core::Cancel{child, ""});
    EXPECT_EQ(forgettable(desk.state, desk.now + 1h), (std::set<JobId>{cron, child}));
}

}  // namespace
}  // namespace roll::ledger
