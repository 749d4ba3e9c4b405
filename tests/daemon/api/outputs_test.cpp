#include "daemon/api/outputs.hpp"

#include "common/spec/schema/array.hpp"
#include "tests/daemon/core/desk.hpp"

namespace roll::api {
namespace {

spec::JobSpec to(const std::string& output) {
    spec::JobSpec spec = core::wants(1, 1);
    spec.output = output;
    return spec;
}

class OneOutput : public testing::Test {
  protected:
    std::string refusal(const spec::JobSpec& spec) {
        const auto checked = outputs.check(desk.state, spec, "ann key");
        outputs.end_turn();
        return checked ? "" : checked.error().message;
    }
    JobId queue(const spec::JobSpec& spec) {
        EXPECT_EQ(refusal(spec), "");
        const JobId id = desk.submit(spec);
        outputs.note(id, desk.job(id));
        return id;
    }
    core::Desk desk;
    Outputs outputs;
};

TEST_F(OneOutput, BelongsToOneJobUntilThatIsOver) {
    const JobId first = queue(to("/out"));
    EXPECT_EQ(refusal(to("/out")), "output is /out, but job 1 writes there and has not ended");
    EXPECT_EQ(refusal(to("/other")), "");
    EXPECT_EQ(refusal(to("/out-{id}")), "");
    spec::JobSpec later = to("/out");
    later.after = {{spec::After::Condition::Any, first}};
    EXPECT_EQ(refusal(later), "") << "it waits";
    desk.tell(core::Cancel{first, ""});
    EXPECT_EQ(refusal(to("/out")), "");
}

TEST_F(OneOutput, WithTheResultsOfATrainingIsNotThatOfANewTraining) {
    desk.join("n1", 1);
    spec::JobSpec training = to("/out");
    training.kind = spec::JobKind::Train;
    const JobId failed = queue(training);
    desk.exit(failed, core::Outcome::Invalid, 2);
    ASSERT_EQ(desk.job(failed).phase, core::JobPhase::Failed);
    const JobId stopped = queue(training);  // the failed training has left no checkpoint
    desk.tell(core::MemberStarted{desk.worker_of(stopped), desk.attempt(stopped)});
    desk.tell(core::CheckpointWritten{desk.worker_of(stopped), desk.attempt(stopped), 5, "/c"});
    desk.exit(stopped, core::Outcome::Invalid, 2);
    ASSERT_EQ(desk.job(stopped).phase, core::JobPhase::Failed);
    const std::string told =
        "output is /out, but job 2 has left its results there, and a new training would replace "
        "them";
    EXPECT_EQ(refusal(training), told);
    outputs = Outputs{};
    EXPECT_EQ(refusal(training), told) << "also after a restart of rolld";
    EXPECT_EQ(refusal(to("/out")), "") << "commands may write beside the results";
    spec::JobSpec resumed = training;
    resumed.kind = spec::JobKind::Resume;
    resumed.source_job = stopped;
    EXPECT_EQ(refusal(resumed), "");
    training.after = {{spec::After::Condition::Any, stopped}};
    desk.exit(queue(training), core::Outcome::Done);
    training.after.clear();
    EXPECT_TRUE(refusal(training).starts_with("output is /out, but job 3 has left its results"));
}

TEST_F(OneOutput, OfJobsThatWereThereBeforeIsKnown) {
    desk.submit(to("/out"));
    EXPECT_NE(refusal(to("/out")), "");
}

TEST_F(OneOutput, IsNotThatOfTwoTasksOrOfTwoSubmissionsOfATurn) {
    spec::JobSpec tasks = to("/out");
    tasks.array = spec::parse_array("0-3").value();
    EXPECT_EQ(refusal(tasks), "output is /out for each of the 4 tasks of the array");
    tasks.output = "/out/{index}";
    EXPECT_EQ(refusal(tasks), "");
    desk.submit(tasks);
    for (const auto& [id, job] : desk.state.jobs) outputs.note(id, job);
    EXPECT_EQ(refusal(to("/out/2")), "output is /out/2, but job 3 writes there and has not ended");
    EXPECT_TRUE(outputs.check(desk.state, to("/new"), "ann 1"));
    EXPECT_TRUE(outputs.check(desk.state, to("/new"), "ann 1")) << "said twice";
    EXPECT_FALSE(outputs.check(desk.state, to("/new"), "ann 2"));
}

}  // namespace
}  // namespace roll::api
