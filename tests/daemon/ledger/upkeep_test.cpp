// Tests backup, restore and pruning.
#include <fstream>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/files.hpp"
#include "common/spec/schema/array.hpp"
#include "daemon/ledger/backup.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/ledger/mark.hpp"
#include "daemon/ledger/prune.hpp"
#include "daemon/ledger/sqlite.hpp"
#include "tests/daemon/core/desk.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::ledger {
namespace {

using namespace std::chrono_literals;
constexpr Time kDay0{1'700'000'000'000ms};

core::Event submitted(std::uint64_t id, std::vector<spec::After> after = {}) {
    spec::JobSpec spec;
    spec.name = "j";
    spec.output = "/o";
    spec.document = "{}";
    spec.after = std::move(after);
    return core::JobSubmitted{JobId{id}, "k" + std::to_string(id), "ann", spec, kDay0};
}

core::Event ended(std::uint64_t id, int day) {
    return core::JobEnded{JobId{id}, core::JobPhase::Cancelled, 0, "", kDay0 + day * 24h};
}

// Returns a history with jobs 1 to 6. One job ends per day; 5 depends on 2; 6 is still queued.
core::Events history() {
    core::Events events;
    for (std::uint64_t id = 1; id <= 6; ++id) {
        std::vector<spec::After> after;
        if (id == 5) after.push_back({spec::After::Condition::Any, JobId{2}});
        events.push_back(submitted(id, after));
    }
    for (int id = 1; id <= 5; ++id) events.push_back(ended(static_cast<std::uint64_t>(id), id));
    return events;
}

core::State fold(const core::Events& events) {
    core::State state;
    for (const core::Event& event : events) core::apply(state, event);
    return state;
}

TEST(Prune, KeepsWhatIsYoungOrNeededAndTheNewest) {
    const core::State state = fold(history());
    EXPECT_EQ(forgettable(state, kDay0), std::set<JobId>{});
    EXPECT_EQ(forgettable(state, kDay0 + 50h), (std::set<JobId>{{1}})) << "5 names 2";
    EXPECT_EQ(forgettable(state, kDay0 + 100h), (std::set<JobId>{{1}, {3}, {4}}));
    EXPECT_EQ(forgettable(state, kDay0 + 1000h), (std::set<JobId>{{1}, {2}, {3}, {4}, {5}}));
}

TEST(Prune, KeepsAnArrayWholeThatIsAwaited) {
    core::Events events;
    for (std::uint64_t id = 1; id <= 3; ++id) {
        events.push_back(submitted(id));
        auto& job = std::get<core::JobSubmitted>(events.back());
        job.spec.array = spec::Array{"0-2", 0, static_cast<int>(id) - 1};
        job.array = JobId{1};
    }
    events.push_back(submitted(4, {{spec::After::Condition::Failed, JobId{1}, true}}));
    for (int id = 1; id <= 2; ++id) events.push_back(ended(static_cast<std::uint64_t>(id), id));
    EXPECT_EQ(forgettable(fold(events), kDay0 + 1000h), std::set<JobId>{});
    events.push_back(ended(3, 3));
    EXPECT_EQ(forgettable(fold(events), kDay0 + 1000h), std::set<JobId>{}) << "4 is queued";
    events.push_back(ended(4, 4));
    events.push_back(submitted(5));
    EXPECT_EQ(forgettable(fold(events), kDay0 + 1000h), (std::set<JobId>{{1}, {2}, {3}, {4}}));
}

TEST(Prune, ForgetsTheJobsEventsAndNothingElse) {
    const TemporaryFolder folder;
    {
        auto ledger = Ledger::open(folder);
        ASSERT_TRUE(ledger->append(history(), kDay0));
        const core::State state = *ledger->load();
        EXPECT_EQ(*ledger->prune(state, kDay0 + 100h, kDay0 + 200h), 3u);
    }
    auto ledger = Ledger::open(folder);
    ASSERT_TRUE(ledger) << ledger.error().message;
    core::State expected = fold(history());
    for (const std::uint64_t id : {1, 3, 4}) {
        expected.jobs.erase(JobId{id});
        expected.keys.at("ann").erase("k" + std::to_string(id));
    }
    EXPECT_EQ(*ledger->load(), expected);
    EXPECT_EQ(ledger->newest(), 12) << "ann's use, carried over";
    const core::Event next = submitted(7);
    ASSERT_TRUE(ledger->append({&next, 1}, kDay0));
    EXPECT_EQ(ledger->newest(), 13);
}

// Returns a history with a job of bob that held two GPUs for an hour, and a newest job, which is
// never pruned.
core::Events used_history() {
    spec::JobSpec spec;
    spec.name = "j";
    spec.output = "/o";
    spec.document = "{}";
    spec.account = "lab";
    spec.resources.gpus_per_node = 2;
    spec.resources.time = 2h;
    spec::Policy policy;
    policy.half_life = 24h;
    const AttemptKey key{JobId{1}, Token{1, 1}};
    return {core::IncarnationRaised{1, kDay0},
            core::PolicySet{policy, kDay0},
            core::WorkerJoined{WorkerId{1}, "n1", "s1", 4, 2, kDay0},
            core::JobSubmitted{JobId{1}, "k1", "bob", spec, kDay0},
            core::JobSubmitted{JobId{2}, "k2", "ann", spec, kDay0},
            core::AttemptPlaced{key, {core::Place{WorkerId{1}, {0}, {0, 1}}}, kDay0},
            core::MemberUp{key, WorkerId{1}},
            core::AttemptStarted{key, kDay0},
            core::MemberEnded{key, WorkerId{1}, core::Outcome::Done, 0, ""},
            core::AttemptEnded{key, core::Outcome::Done, 0, "", kDay0 + 1h},
            core::JobEnded{JobId{1}, core::JobPhase::Done, 0, "", kDay0 + 1h}};
}

TEST(Prune, KeepsWhatTheForgottenJobsHadUsed) {
    const TemporaryFolder folder;
    const core::State before = fold(used_history());
    const core::User bob{"lab", "bob"};
    ASSERT_EQ(before.use.at(bob).gpu_ms, 2 * 3'600'000);
    ASSERT_GT(before.use.at(bob).decayed, 0);
    {
        auto ledger = Ledger::open(folder);
        ASSERT_TRUE(ledger->append(used_history(), kDay0));
        EXPECT_EQ(*ledger->prune(*ledger->load(), kDay0 + 100h, kDay0 + 200h), 1u);
    }
    const auto ledger = Ledger::open(folder);
    const auto after = ledger->load();
    ASSERT_TRUE(after) << after.error().message;
    EXPECT_FALSE(after->jobs.contains(JobId{1}));
    EXPECT_EQ(after->use, before.use);
}

TEST(Prune, IsNotTakenForDamageIfItsMarkWasNotWritten) {
    const TemporaryFolder folder;
    std::string mark;
    {
        auto ledger = Ledger::open(folder);
        ASSERT_TRUE(ledger->append(history(), kDay0));
        mark = *read_file(folder / "ledger.mark");
        ASSERT_TRUE(ledger->prune(*ledger->load(), kDay0 + 100h, kDay0));
    }
    ASSERT_TRUE(write_file_atomically(folder / "ledger.mark", mark));
    EXPECT_TRUE(Ledger::open(folder));
}

TEST(Ledger, FindsAJobNumberThatWasChanged) {
    const TemporaryFolder folder;
    { ASSERT_TRUE(Ledger::open(folder)->append(history(), kDay0)); }
    {
        auto database = open_database(folder / "ledger.db");
        ASSERT_TRUE(execute(database->get(), "UPDATE events SET job = 3 WHERE seq = 2"));
    }
    const auto state = Ledger::open(folder)->load();
    ASSERT_FALSE(state);
    EXPECT_NE(state.error().message.find("event 2 is stored under job 3"), std::string::npos);
}

TEST(Backup, IsTheLedgerAsItWasAndComesBack) {
    const TemporaryFolder folder;
    const auto state = folder / "state";
    const auto copy = folder / "copy";
    {
        auto ledger = Ledger::open(state);
        ASSERT_TRUE(ledger->append(history(), kDay0));
        const auto newest = back_up(state, copy);  // made while the ledger is open
        ASSERT_TRUE(newest) << newest.error().message;
        EXPECT_EQ(*newest, 11);
        const core::Event later = submitted(7);
        ASSERT_TRUE(ledger->append({&later, 1}, kDay0));
        EXPECT_EQ(back_up(state, copy).error().code, ErrorCode::Refused) << "it is there";
        EXPECT_EQ(restore(copy, state, 9, kDay0).error().code, ErrorCode::Refused) << "served";
    }
    const auto restored = restore(copy, state, 9, kDay0);
    ASSERT_TRUE(restored) << restored.error().message;
    core::State expected = fold(history());
    expected.incarnation = 9;
    expected.adopting = true;
    expected.next_job = 8;  // runs/j-7 belongs to job 7, although the backup lacks that job
    EXPECT_EQ(*Ledger::open(state)->load(), expected);
    EXPECT_TRUE(std::filesystem::exists(restored->before / "ledger.db"))
        << "what was there is kept";
}

TEST(Ledger, ThatCannotBeOpenedForLackOfDescriptorsIsNotDamagedAndBelongsToNobodyElse) {
    const TemporaryFolder folder;
    { ASSERT_TRUE(Ledger::open(folder)->append(history(), kDay0)); }
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit few = before;
    few.rlim_cur = 3;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto database = open_database(folder / "ledger.db");
    ::setrlimit(RLIMIT_NOFILE, &before);
    ASSERT_FALSE(database);
    EXPECT_EQ(database.error().code, ErrorCode::Unavailable) << "a later start may succeed";
    EXPECT_EQ(database.error().message, "cannot open " + (folder / "ledger.db").string() +
                                            " or its WAL: Too many open files");
}

TEST(Ledger, ThatIsNotAFileIsToldAtOnce) {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder / "ledger.db";
    std::filesystem::create_directory(path);
    EXPECT_EQ(Ledger::open(folder).error().message, path.string() + " is a directory");
    EXPECT_EQ(back_up(folder, folder / "copy").error().message, path.string() + " is a directory");
    std::filesystem::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(Ledger::open(folder).error().message, path.string() + " is not a regular file");
}

TEST(Backup, ASlashAtTheEndIsNothing) {
    const TemporaryFolder folder;
    { ASSERT_TRUE(Ledger::open(folder / "state")->append(history(), kDay0)); }
    const auto newest = back_up(folder / "state", (folder / "copy").string() + "/");
    ASSERT_TRUE(newest) << newest.error().message;
    EXPECT_TRUE(std::filesystem::exists(folder / "copy" / "ledger.db"));
}

TEST(Backup, WhatCannotBeLookedAtIsToldInASentence) {
    const TemporaryFolder folder;
    // The name is too long, which is another error than "no such file".
    const std::filesystem::path endless = std::string(5000, 'x');
    EXPECT_EQ(back_up(endless, folder / "b").error().code, ErrorCode::NotFound);
    { ASSERT_TRUE(Ledger::open(folder / "state")->append(history(), kDay0)); }
    EXPECT_FALSE(back_up(folder / "state", folder / endless));
    EXPECT_FALSE(restore(folder / endless, folder / "state", 9, kDay0));
}

// The ledger of a killed rolld whose WAL lost its end: of six jobs, only two are known.
struct TornLedger {
    TemporaryFolder folder;
    std::filesystem::path state = folder / "state";
    TornLedger() {
        const auto served = folder / "served";
        auto ledger = Ledger::open(served);
        for (const core::Event& event : history()) EXPECT_TRUE(ledger->append({&event, 1}, kDay0));
        std::filesystem::create_directory(state);
        for (const char* name : {"ledger.db", "ledger.db-wal", "ledger.mark"})
            std::filesystem::copy_file(served / name, state / name);
        const auto wal = state / "ledger.db-wal";
        std::filesystem::resize_file(wal, std::filesystem::file_size(wal) / 2);
    }
};

TEST(Ledger, ThatIsDamagedKeepsItsWal) {
    const TornLedger torn;
    const std::string wal = *read_file(torn.state / "ledger.db-wal");
    ASSERT_EQ(Ledger::open(torn.state).error().code, ErrorCode::Corrupt);
    EXPECT_EQ(read_file(torn.state / "ledger.db-wal"), wal);
}

TEST(Backup, IsNotMadeOfADamagedLedger) {
    const TornLedger torn;
    const auto made = back_up(torn.state, torn.folder / "copy");
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::Corrupt);
    EXPECT_NE(made.error().message.find((torn.state / "ledger.db").string()), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(torn.folder / "copy"));
    EXPECT_TRUE(std::filesystem::exists(torn.state / "ledger.db-wal")) << "it is still evidence";
}

TEST(Restore, StartsOverWithNumbersThatNoLostJobHad) {
    const TornLedger torn;
    const auto restored = restore("", torn.state, 4, kDay0);
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_GE(restored->next_job, 7u);
    EXPECT_LE(restored->next_job, 12u) << "eleven events were marked";
    EXPECT_TRUE(std::filesystem::exists(restored->before / "ledger.db-wal"));
    const auto state = Ledger::open(torn.state)->load();
    EXPECT_TRUE(state->jobs.empty());
    EXPECT_EQ(state->incarnation, 4u);
    EXPECT_EQ(state->next_job, restored->next_job);
    EXPECT_EQ(restore("", torn.state, 5, kDay0 + 1h)->next_job, restored->next_job)
        << "it is remembered";
}

TEST(Backup, ThatIsDamagedIsNotRestored) {
    const TemporaryFolder folder;
    const auto state = folder / "state";
    const auto copy = folder / "copy";
    { ASSERT_TRUE(Ledger::open(state)->append(history(), kDay0)); }
    ASSERT_TRUE(back_up(state, copy));
    {
        auto database = open_database(copy / "ledger.db");
        ASSERT_TRUE(execute(database->get(), "UPDATE events SET body = '{}' WHERE seq = 4"));
    }
    const auto restored = restore(copy, state, 0, kDay0);
    ASSERT_FALSE(restored);
    EXPECT_EQ(restored.error().code, ErrorCode::Corrupt);
    EXPECT_TRUE(restored.error().message.starts_with((copy / "ledger.db").string()));
    EXPECT_EQ(*Ledger::open(state)->load(), fold(history()));
}

TEST(Backup, ThatIsDamagedIsNamedWhereverItsFilesAre) {
    const TornLedger torn;
    const auto other = torn.folder / "other";
    std::filesystem::create_directory(other);
    const auto restored = restore(torn.state, other, 0, kDay0);
    ASSERT_FALSE(restored);
    const std::string& message = restored.error().message;
    EXPECT_NE(message.find("the WAL " + (torn.state / "ledger.db-wal").string()), std::string::npos)
        << message;
    EXPECT_EQ(message.find(".ledger-restore"), std::string::npos) << message;
}

// A rolld that starts in the middle of a restore fails, instead of starting with an empty queue.
TEST(Backup, ThatIsHalfRestoredIsNoEmptyLedger) {
    const TemporaryFolder folder;
    { ASSERT_TRUE(Ledger::open(folder)->append(history(), kDay0)); }
    for (const char* name : {"ledger.db", "ledger.db-wal", "ledger.db-shm"})
        std::filesystem::remove(folder / name);
    const auto opened = Ledger::open(folder);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::Corrupt);
}

// The end of a group reports how its jobs ended, so they must be kept until then.
TEST(Forgettable, IsNotWhatBelongsToAnOpenJob) {
    core::Desk desk;
    desk.join("n", 1);
    spec::JobSpec open = core::wants(1, 1);
    open.open = true;
    spec::JobSpec spec = core::wants(1, 1);
    spec.into = desk.submit(open);
    const JobId inside = desk.submit(spec);
    desk.exit(inside, core::Outcome::Done);
    desk.submit(core::wants(1, 1));
    EXPECT_FALSE(forgettable(desk.state, desk.now + 1h).contains(inside));
    desk.tell(core::Close{*spec.into});
    EXPECT_TRUE(forgettable(desk.state, desk.now + 1h).contains(inside));
}

// The database has the format of the first release, format 1.
TEST(Migrations, BringAnOlderLedgerForward) {
    const TemporaryFolder folder;
    { ASSERT_TRUE(Ledger::open(folder)->append(history(), kDay0)); }
    {
        auto database = open_database(folder / "ledger.db");
        ASSERT_TRUE(execute(database->get(), "DROP TABLE pruned; PRAGMA user_version = 1"));
    }
    auto ledger = Ledger::open(folder);
    ASSERT_TRUE(ledger) << ledger.error().message;
    EXPECT_EQ(*ledger->load(), fold(history()));
    EXPECT_EQ(*ledger->prune(*ledger->load(), kDay0 + 100h, kDay0), 3u);
}

}  // namespace
}  // namespace roll::ledger
