// Jobs that name secrets of their user.
#include "common/spec/schema/array.hpp"
#include "tests/daemon/core/desk.hpp"

namespace roll::core {
namespace {

class Secrets : public testing::Test {
  protected:
    Secrets() {
        desk.join("n", 8);
        desk.tell(SetSecrets{{{"ann", "TOKEN"}, {"bob", "OTHER"}}});
        spec.secrets = {"TOKEN"};
    }
    JobPhase phase(JobId id) const { return desk.job(id).phase; }
    Error refused(spec::JobSpec wanted, const std::string& user = "ann") const {
        wanted.output = "/x";
        return desk.refusal(Submit{"k", user, std::move(wanted)});
    }

    Desk desk;
    spec::JobSpec spec = wants(1, 1);
};

TEST_F(Secrets, AJobStartsIfItsUserHasThem) {
    EXPECT_EQ(phase(desk.submit(spec)), JobPhase::Running);
}

TEST_F(Secrets, OneThatIsMissingIsNamedAtSubmission) {
    EXPECT_EQ(refused(spec, "bob").message, "bob has no secret TOKEN");
    EXPECT_EQ(refused(spec, "bob").code, ErrorCode::NotFound);
    spec.secrets = {"TOKEN", "OTHER"};
    EXPECT_EQ(refused(spec).message, "ann has no secret OTHER") << "bob's is not ann's";
    spec::JobSpec chain = wants(1, 1);
    chain.document = spec.document = "{}";
    chain.then = {spec};
    EXPECT_EQ(refused(chain).message, "ann has no secret OTHER");
    spec.secrets.assign(33, "TOKEN");
    EXPECT_EQ(refused(spec).code, ErrorCode::InvalidArgument);
}

TEST_F(Secrets, AQueuedJobWaitsForOneThatWasRemoved) {
    const JobId first = desk.submit(wants(1, 8));
    spec.array = spec::parse_array("0-1").value();
    const JobId second = desk.submit(spec);
    const JobId plain = desk.submit(wants(1, 1));
    desk.tell(SetSecrets{{{"bob", "OTHER"}}});
    desk.exit(first, Outcome::Done);
    EXPECT_EQ(phase(second), JobPhase::Queued) << "it keeps nobody from starting";
    EXPECT_EQ(phase(plain), JobPhase::Running);
    desk.tell(SetSecrets{{{"ann", "TOKEN"}}});
    EXPECT_EQ(phase(second), JobPhase::Running);
    EXPECT_TRUE(desk.tell(SetSecrets{{{"ann", "TOKEN"}}}).empty()) << "said again";
}

TEST_F(Secrets, ARunningJobGoesOnWithoutAndIsNotTriedAgain) {
    const JobId id = desk.submit(spec);
    desk.tell(SetSecrets{});
    EXPECT_EQ(phase(id), JobPhase::Running);
    desk.exit(id, Outcome::Infra, 137);
    desk.pass(std::chrono::hours(1));
    EXPECT_EQ(phase(id), JobPhase::Queued);
    desk.tell(SetSecrets{{{"ann", "TOKEN"}}});
    EXPECT_EQ(phase(id), JobPhase::Running);
}

TEST_F(Secrets, ItsExportHasNone) {
    spec.kind = spec::JobKind::Train;
    spec.export_document = "{}";
    const JobId id = desk.submit(spec);
    desk.tell(SetSecrets{});
    desk.exit(id, Outcome::Done);
    EXPECT_EQ(phase(desk.job(id).export_job.value()), JobPhase::Running);
}

}  // namespace
}  // namespace roll::core
