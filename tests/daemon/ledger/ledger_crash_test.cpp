// Tests the ledger on a disk that crashes at each write and sync. The process is killed, a write is
// torn, writes that were not synced are lost, or the disk fails. Afterwards the ledger must have
// all acknowledged events, and no others except events of the last batch.
#include <fstream>

#include <gtest/gtest.h>

#include "daemon/ledger/ledger.hpp"
#include "daemon/ledger/mark.hpp"
#include "tests/daemon/ledger/crash_disk.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::ledger {
namespace {

constexpr Time kAt{std::chrono::milliseconds{1'700'000'000'000}};

core::Event submitted(std::uint64_t id) {
    spec::JobSpec spec;
    spec.name = "j" + std::to_string(id);
    spec.output = "/o";
    spec.document = std::string(3000, 'x');  // large, so that its rows take several pages
    return core::JobSubmitted{JobId{id}, "k" + std::to_string(id), "ann", spec, kAt};
}

// Numbers of jobs that are submitted together. The ledger is closed after the third batch.
constexpr std::array kBatches = {1, 1, 3, 2, 1};

class LedgerCrash : public testing::Test {
  protected:
    // Appends the batches. After each, writes to a file how many jobs are acknowledged.
    void write_batches() const {
        std::ofstream acknowledged(folder_ / "acknowledged");
        std::uint64_t next = 1;
        auto ledger = Ledger::open(folder_);
        for (std::size_t batch = 0; ledger && batch < kBatches.size(); ++batch) {
            core::Events events;
            for (int i = 0; i < kBatches[batch]; ++i) events.push_back(submitted(next++));
            if (!ledger->append(events, kAt)) return;
            acknowledged << next - 1 << std::endl;
            if (batch != 2) continue;
            // Closing the ledger merges its WAL into the database.
            ledger = tl::unexpected(Error{});
            ledger = Ledger::open(folder_);
        }
    }
    std::uint64_t acknowledged() const {
        std::ifstream file(folder_ / "acknowledged");
        std::uint64_t newest = 0;
        while (file >> newest) {}
        return newest;
    }
    // Checks the ledger after a restart: it has whole batches, and at least the acknowledged ones.
    void check(const std::string& when) const {
        auto ledger = Ledger::open(folder_);
        ASSERT_TRUE(ledger) << when << ": " << ledger.error().message;
        const auto state = ledger->load();
        ASSERT_TRUE(state) << when << ": " << state.error().message;
        const std::uint64_t found = state->jobs.size();
        EXPECT_GE(found, acknowledged()) << when;
        std::uint64_t whole = 0;
        std::set<std::uint64_t> ends{0};
        for (const int batch : kBatches) ends.insert(whole += static_cast<std::uint64_t>(batch));
        EXPECT_TRUE(ends.contains(found)) << when << ": a batch in part, " << found << " jobs";
        const core::Event next = submitted(found + 1);
        EXPECT_TRUE(ledger->append({&next, 1}, kAt)) << when;
    }

    void crash_everywhere(Crash crash) {
        int crashes = 0;
        for (int at = 0;; ++at) {
            std::filesystem::remove_all(folder_);
            std::filesystem::create_directory(folder_);
            const int count = run_with_crash(crash, at, [this] { write_batches(); });
            check("operation " + std::to_string(at));
            if (count <= at || HasFailure()) break;
            ++crashes;
        }
        EXPECT_EQ(acknowledged(), 8u) << "the last run came to its end";
        EXPECT_GT(crashes, 30) << "it was killed where it writes";
    }

    TemporaryFolder folder_;
};

TEST_F(LedgerCrash, KilledAnywhereItHasWhatItAcknowledged) { crash_everywhere(Crash::Kill); }
TEST_F(LedgerCrash, WithATornWriteItHasWhatItAcknowledged) { crash_everywhere(Crash::Torn); }
TEST_F(LedgerCrash, AfterALossOfPowerItHasWhatItAcknowledged) {
    crash_everywhere(Crash::PowerLoss);
}
// Rows that a killed rolld wrote and did not sync may still be lost. If they cannot be synced
// either, the mark must not name them.
TEST_F(LedgerCrash, TheMarkNamesNothingThatIsNotSynced) {
    int ahead = 0;  // number of cases in which the newest row is newer than the mark
    for (int at = 0;; ++at) {
        std::filesystem::remove_all(folder_);
        std::filesystem::create_directory(folder_);
        const int count = run_with_crash(Crash::Kill, at, [this] { write_batches(); });
        const auto mark = [&] { return MarkFile::open(folder_ / "ledger.mark").value().read(); };
        const auto before = mark();
        run_with_crash(Crash::Error, 0, [this] { static_cast<void>(Ledger::open(folder_)); });
        ASSERT_EQ(mark(), before) << "operation " << at;
        ahead += Ledger::open(folder_).value().newest() > before.value_or(Mark{}).seq;
        if (count <= at) break;
    }
    EXPECT_GT(ahead, 3);
}
TEST_F(LedgerCrash, OnAFailingDiskItHasWhatItAcknowledged) { crash_everywhere(Crash::Error); }

}  // namespace
}  // namespace roll::ledger
