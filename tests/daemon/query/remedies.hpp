// A core with jobs that wait. Tests ask `explain` and do what it suggests.
#pragma once

#include <functional>

#include "daemon/query/query.hpp"
#include "tests/daemon/core/desk.hpp"

namespace roll::query {

using namespace std::chrono_literals;
using core::Desk;
using core::JobPhase;
using core::Outcome;
using core::wants;

class Explain : public testing::Test {
  protected:
    // Returns the hold of the job. Fails unless there is exactly one.
    Hold only(JobId id) const {
        const auto all = holds(desk.state, id, desk.now);
        EXPECT_EQ(all.size(), 1u);
        return all.empty() ? Hold{} : all.front();
    }
    bool runs(JobId id) const { return desk.job(id).phase == JobPhase::Running; }
    static std::uint64_t number(const std::string& text) { return std::stoull(text); }

    void carry_out(const std::string& remedy);
    void change_queues(const std::string& remedy);
    void wait(const std::string& remedy);
    void grant();
    // Cancels the held job, and submits a changed copy of it.
    void submit_again(const std::function<void(spec::Resources&)>& change) {
        spec::JobSpec changed = desk.job(held).spec;
        change(changed.resources);
        desk.tell(core::Cancel{held, ""});
        held = desk.submit(changed);
    }
    void raise(spec::Quota& quota, const std::string& key) {
        if (key == "slots") quota.slots = 100;
        if (key == "gpus") quota.gpus = 100;
        if (key == "gpu_hours") quota.gpu_hours = 1000;
        desk.tell(core::SetPolicy{policy});
    }
    // Carries out the remedy of each hold until the job starts. Returns the first hold's `why`.
    std::string cure_step_by_step(JobId id) {
        held = id;
        const std::string first = only(id).why;
        for (int steps = 0; steps < 6 && !runs(held); ++steps) carry_out(only(held).remedy);
        EXPECT_TRUE(runs(held)) << first;
        return first;
    }
    void expect_cured(JobId id, const std::string& rule) {
        ASSERT_FALSE(runs(id));
        const Hold hold = only(id);
        EXPECT_EQ(hold.rule, rule) << hold.why;
        EXPECT_FALSE(hold.why.empty());
        carry_out(hold.remedy);
        EXPECT_TRUE(runs(id)) << hold.remedy;
    }
    void expect_told(JobId id, const std::string& rule) {
        const Hold hold = only(id);
        EXPECT_EQ(hold.rule, rule) << hold.why;
        carry_out(hold.remedy);
    }
    void end(JobId id) { desk.exit(id, Outcome::Done); }

    Desk desk;
    JobId held{};
    spec::Policy policy{};
    spec::JobSpec spec = wants(1, 1);
    spec::PilotQueue queue{.name = "gpu", .slots = 8, .time = 1h};
};

}  // namespace roll::query
