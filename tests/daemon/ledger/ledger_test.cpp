#include "daemon/ledger/ledger.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "daemon/core/apply/apply.hpp"
#include "daemon/ledger/event_json.hpp"
#include "daemon/ledger/sqlite.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::ledger {
namespace {

constexpr Time kAt{std::chrono::milliseconds{1'700'000'000'123}};

spec::JobSpec some_spec() {
    spec::JobSpec spec;
    spec.name = "eval \"x\"\n";
    spec.output = "/runs/x-1";
    spec.after = {{spec::After::Condition::Any, JobId{3}}};
    spec.document = R"({"command":["true"]})";
    spec.open = true;
    spec.into = JobId{2};
    return spec;
}

spec::PilotQueue queue() {
    spec::PilotQueue queue;
    queue.name = "gpu";
    queue.partition = "a";
    queue.time = std::chrono::hours(1);
    queue.setup = {"module load x"};
    return queue;
}

spec::Policy some_policy() {
    spec::Policy policy;
    policy.backfill = false;
    policy.half_life = std::chrono::hours(2);
    policy.preempt = true;
    policy.bad_nodes = {5, std::chrono::hours(3), std::chrono::hours(4)};
    policy.accounts["lab"].users = {"ann"};
    policy.accounts["lab"].quota.gpus = 4;
    policy.accounts["lab"].quota.borrow_gpus = 2;
    policy.accounts["team"].parent = "lab";
    policy.users["*"].quota.jobs = 100;
    policy.gang_slurm_variables = true;
    return policy;
}

// Returns one event of each kind. None of their fields has its default value.
core::Events one_of_each() {
    const AttemptKey key{JobId{1}, Token{2, 1}};
    return {
        core::IncarnationRaised{2, kAt, 7},
        core::JobSubmitted{JobId{1}, "key", "ann", some_spec(), kAt},
        core::ExportQueued{JobId{1}, JobId{2}},
        core::JobHeld{JobId{1}, true, "bob"},
        core::JobPriorityChanged{JobId{1}, -7},
        core::JobCancelRequested{JobId{1}, "why", kAt, "bob", true},
        core::JobRequeued{JobId{1}, kAt, 3, 4, 5, 6, "n1"},
        core::JobEnded{JobId{1}, core::JobPhase::Failed, 137, "killed", kAt},
        core::AttemptPlaced{
            key,
            {core::Place{.worker = WorkerId{5},
                         .slots = {0, 2},
                         .gpus = {1},
                         .gpu_percent = 50,
                         .memory = 7LL << 30,
                         .cpus = 3},
             core::Place{.worker = WorkerId{6}, .slots = {}, .gpus = {}, .spare = true}},
            kAt,
            2},
        core::AttemptStarted{key, kAt},
        core::AttemptStopping{key, "cancelled", true},
        core::MemberEnded{
            key, WorkerId{5}, core::Outcome::Yielded, 75, "asked to", {0, 2}, {5, 6, 7, 8}},
        core::AttemptEnded{key, core::Outcome::Infra, 1, "lost", kAt},
        core::CheckpointRecorded{key, 100, "/runs/x-1/checkpoints/step-00000100.2-1", kAt},
        core::CheckpointPruned{JobId{1}, 50, Token{1, 1}},
        core::ExportRecorded{key, "/runs/x-1/export/hf-step-00000020", kAt, 20, 10},
        core::WorkerJoined{
            WorkerId{6}, "n2", "abd", 4, 2, kAt, 3, "leaf1", {0, 1}, 9LL << 30, 6, "dir@n2"},
        core::WorkerDrained{WorkerId{5}, true, "ann", "n2"},
        core::WorkerLost{WorkerId{5}, "silent", kAt, "n2"},
        core::MemberUp{key, WorkerId{5}},
        core::JobDue{JobId{1}},
        core::JobBeginChanged{JobId{1}, kAt, kAt},
        core::QueueAdded{queue(), kAt},
        core::QueuePaused{"gpu", true, "five orders in a row came to nothing"},
        core::QueueRemoving{"gpu"},
        core::QueueRemoved{"gpu"},
        core::AllocationOrdered{AllocationId{2}, "gpu", 3, kAt},
        core::AllocationAccepted{AllocationId{2}, "4711"},
        core::AllocationGranted{AllocationId{2}, kAt, kAt},
        core::AllocationReturned{AllocationId{2}},
        core::AllocationReleasing{AllocationId{2}, true, "no worker of it has come"},
        core::AllocationEnded{AllocationId{2}, true, "TIMEOUT", kAt},
        core::PilotJoined{WorkerId{5}, AllocationId{2}, kAt},
        core::PolicySet{some_policy(), kAt},
        core::CheckpointAsked{key, 2},
        core::MachineExcluded{"gpu7", kAt, "3 attempts of 2 jobs failed on it", kAt},
        core::MachineForgiven{"gpu7", "ann"},
        core::UseCarried{"lab", "ann", 3, 4, kAt},
        core::WorkerQuiet{WorkerId{5}, true, "n2"},
        core::AdoptingSet{true},
        core::DispatchStopped{true, "power at 18:00"},
        core::JobClosed{JobId{1}},
        core::SecretsKnown{{{"ann", "TOKEN"}, {"bob", "TOKEN"}}},
        core::AttemptFenced{key, WorkerId{3}, "n", kAt},
        core::ClockStepped{-3'600'000, kAt},
        core::TrainingAsked{key, {3, RequestKind::Profile, 5}, "ann"},
        core::TrainingAnswered{key, {3, 70, 80, "done"}, kAt},
        core::AllocationClosed{AllocationId{2}, "ann"},
    };
}

TEST(EventJson, ReadsBackEveryKindAsItWasWritten) {
    const core::Events events = one_of_each();
    ASSERT_EQ(events.size(), std::variant_size_v<core::AnyEvent>);
    for (std::size_t i = 0; i < events.size(); ++i) {
        ASSERT_EQ(events[i].index(), i) << "one of each, in order";
        const std::string body = body_of(events[i]);
        const auto again = event_from(kind_of(events[i]), body);
        ASSERT_TRUE(again) << again.error().message;
        EXPECT_EQ(body_of(*again), body);
        EXPECT_EQ(again->index(), i);
    }
}

TEST(EventJson, HoldsTheFieldsThatWereGiven) {
    const core::Events events = one_of_each();
    EXPECT_EQ(body_of(events[8]), R"({"at":1700000000123,"attempt":{"job":1,"token":"2-1"},)"
                                  R"("places":[{"cpus":3,"gpu_percent":50,"gpus":[1],)"
                                  R"("memory":7516192768,"slots":[0,2],)"
                                  R"("worker":5},{"gpus":[],"slots":[],"spare":true,)"
                                  R"("worker":6}],"variant":2})");
    EXPECT_EQ(body_of(events[7]),
              R"({"at":1700000000123,"exit_code":137,"job":1,"phase":"failed","reason":"killed"})");
}

TEST(EventJson, ReadsEventsOfEarlierVersionsThatNameNoNode) {
    for (const auto& [kind, body] : std::vector<std::pair<const char*, const char*>>{
             {"worker_lost", R"({"at":1700000000123,"reason":"silent","worker":5})"},
             {"worker_drained", R"({"draining":true,"worker":5})"},
             {"worker_quiet", R"({"quiet":true,"worker":5})"}}) {
        const auto event = event_from(kind, body);
        ASSERT_TRUE(event) << event.error().message;
        EXPECT_EQ(body_of(*event), body);
    }
}

TEST(EventJson, RefusesWhatIsNotExactlyAnEvent) {
    EXPECT_FALSE(event_from("no_such_kind", "{}"));
    EXPECT_FALSE(event_from("job_held", R"({"job":1})"));
    EXPECT_FALSE(event_from("job_held", R"({"job":1,"held":true,"more":1})"));
    EXPECT_FALSE(event_from("job_held", R"({"job":"x","held":true})"));
    EXPECT_FALSE(event_from("export_recorded",
                            R"({"attempt":{"job":1,"token":"2"},"directory":"","at":1})"));
    EXPECT_FALSE(event_from("job_held", "{"));
}

core::Events submissions(int count) {
    core::Events events;
    for (int i = 1; i <= count; ++i) {
        const JobId id{static_cast<std::uint64_t>(i)};
        events.push_back(core::JobSubmitted{id, "k" + std::to_string(i), "ann", some_spec(), kAt});
    }
    return events;
}

TEST(Ledger, LoadsTheStateThatTheEventsFoldTo) {
    const TemporaryFolder folder;
    core::State expected;
    for (const core::Event& event : submissions(20)) core::apply(expected, event);
    {
        auto ledger = Ledger::open(folder);
        ASSERT_TRUE(ledger) << ledger.error().message;
        const auto appended = ledger->append(submissions(20), kAt);
        ASSERT_TRUE(appended) << appended.error().message;
        EXPECT_EQ(*ledger->load(), expected);
    }
    auto again = Ledger::open(folder);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again->load(), expected);
    EXPECT_EQ(again->newest(), 20);
    EXPECT_EQ(again->read(18, 10, std::nullopt)->size(), 2u);
    EXPECT_EQ(again->read(0, 10, JobId{7})->front().seq, 7);
}

TEST(Ledger, IsServedByOneProcessAtATime) {
    const TemporaryFolder folder;
    const auto first = Ledger::open(folder);
    ASSERT_TRUE(first);
    const auto second = Ledger::open(folder);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::Refused);
}

void flip(const std::filesystem::path& path, std::size_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char old = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(old ^ 0x10));
}

// Copies the files of an open ledger, whose WAL is not merged yet, as a killed process would leave
// them.
void copy_files(const std::filesystem::path& from, const std::filesystem::path& to) {
    for (const char* name : {"ledger.db", "ledger.db-wal", "ledger.mark"}) {
        if (std::filesystem::exists(from / name))
            std::filesystem::copy_file(from / name, to / name,
                                       std::filesystem::copy_options::overwrite_existing);
    }
}

// Damages `file` at one place after every `stride` bytes. Each time, the ledger must refuse to open
// and name the file and the remedy, or, if nothing reads the damaged place, have exactly the
// committed state.
void expect_damage_is_found(const char* file, bool keep_wal, std::size_t stride,
                            void (*damage)(const std::filesystem::path&, std::size_t) = flip) {
    const TemporaryFolder source;
    auto ledger = Ledger::open(source);
    ASSERT_TRUE(ledger);
    for (const core::Event& event : submissions(30)) ASSERT_TRUE(ledger->append({&event, 1}, kAt));
    const core::State expected = *ledger->load();
    const TemporaryFolder pristine;
    if (keep_wal) copy_files(source, pristine);
    ledger = tl::unexpected(Error{});
    if (!keep_wal) copy_files(source, pristine);
    const auto size = std::filesystem::file_size(pristine / file);
    int found = 0;
    for (std::size_t at = 5; at < size; at += stride) {
        const TemporaryFolder copy;
        copy_files(pristine, copy);
        damage(copy / file, at);
        const auto opened = Ledger::open(copy);
        if (!opened) {
            ++found;
            EXPECT_NE(opened.error().message.find("ledger.db"), std::string::npos);
            EXPECT_EQ(opened.error().message.find('\n'), std::string::npos);
            EXPECT_NE(opened.error().hint.find("estore"), std::string::npos)
                << at << ": " << opened.error().message << "; " << opened.error().hint;
            continue;
        }
        const auto loaded = opened->load();
        ASSERT_TRUE(loaded) << at << ": " << loaded.error().message;
        EXPECT_EQ(*loaded, expected) << "byte " << at << " of " << file;
    }
    EXPECT_GT(found, 0);
}

TEST(Ledger, FindsAFlippedByteOfTheDatabase) { expect_damage_is_found("ledger.db", false, 97); }
TEST(Ledger, FindsAFlippedByteOfTheWal) { expect_damage_is_found("ledger.db-wal", true, 1009); }

// Zeroes a sector, as if it had never reached the disk.
void tear(const std::filesystem::path& path, std::size_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at / 512 * 512));
    file << std::string(512, '\0');
}

TEST(Ledger, FindsATornPageOfTheDatabase) { expect_damage_is_found("ledger.db", false, 512, tear); }
TEST(Ledger, FindsATornPageOfTheWal) {
    expect_damage_is_found("ledger.db-wal", true, 7 * 512, tear);
}

// Since format 6, the events of a lost, drained or silent worker name its node. A rolld that knows
// only format 5 cannot read such events, so the upgrade must raise the format.
TEST(Ledger, AnEarlierFormatIsRaisedToOneThatRolldsBeforeItRefuse) {
    const TemporaryFolder folder;
    const auto database = [&] { return *open_database(folder / "ledger.db"); };
    ASSERT_TRUE(Ledger::open(folder)->append(submissions(2), kAt));
    ASSERT_TRUE(execute(database().get(), "PRAGMA user_version=5"));
    EXPECT_EQ(Ledger::open(folder)->load()->jobs.size(), 2u);
    const Database upgraded = database();
    const auto format = prepare(upgraded.get(), "PRAGMA user_version");
    ASSERT_TRUE(format && step(format->get()));
    EXPECT_GE(std::stoi(column_text(format->get(), 0)), 6);
}

TEST(Ledger, RefusesAFormatThatIsNewer) {
    const TemporaryFolder folder;
    { ASSERT_TRUE(Ledger::open(folder)); }
    {
        auto database = open_database(folder / "ledger.db");
        ASSERT_TRUE(execute(database->get(), "PRAGMA user_version=99"));
    }
    const auto opened = Ledger::open(folder);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::Refused);
}

}  // namespace
}  // namespace roll::ledger
