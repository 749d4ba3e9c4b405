// Tests the ledger on a volume that is really full: a small tmpfs in a mount namespace of this
// process.
#include <fstream>

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include "daemon/engine/engine.hpp"
#include "daemon/ledger/backup.hpp"
#include "daemon/ledger/ledger.hpp"

namespace roll::ledger {
namespace {

constexpr Time kFirstHour{std::chrono::hours(1)};

bool make_small_volume(const std::string& folder) {
    const int spaces = ::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER;
    return ::unshare(spaces) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=2m") == 0;
}

class FullVolume : public testing::Test {
  protected:
    FullVolume() { folder_ = ::mkdtemp(name_.data()); }
    ~FullVolume() override {
        ::umount2(folder_.c_str(), MNT_DETACH);
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    // Fills every byte of the volume, so that not even a page of the WAL fits.
    void fill() const {
        std::ofstream file(folder_ + "/filler", std::ios::binary);
        const std::string block(4096, 'x');
        while (file.write(block.data(), 4096).flush()) {}
    }
    void make_room() const { std::filesystem::remove(folder_ + "/filler"); }

    static Result<engine::Turn> submit(engine::Engine& engine, const std::string& key) {
        spec::JobSpec spec;
        spec.name = key;
        spec.output = "/runs/1";
        spec.document = R"({"script":")" + std::string(8000, 'y') + R"("})";
        const std::vector<core::Input> inputs{core::Submit{key, "ann", spec}};
        return engine.step(inputs, kFirstHour);
    }

    std::string name_ = "/tmp/roll-full-XXXXXX";
    std::string folder_;
};

TEST_F(FullVolume, RefusesSubmitsByNameAndWorksAgainWhenThereIsRoom) {
    if (!make_small_volume(folder_)) GTEST_SKIP() << "no mount namespaces here";
    auto ledger = Ledger::open(folder_);
    ASSERT_TRUE(ledger) << ledger.error().message;
    engine::Engine engine(*ledger->load(), {[&](std::span<const core::Event> events, Time at) {
                                                return ledger->append(events, at);
                                            },
                                            [&] { return ledger->load(); }});
    const auto first = submit(engine, "first");
    ASSERT_TRUE(first->replies[0]) << first->replies[0].error().message;
    fill();
    for (const char* key : {"second", "third"}) {
        const auto turn = submit(engine, key);
        ASSERT_TRUE(turn) << "a full volume is not fatal: " << turn.error().message;
        ASSERT_FALSE(turn->replies[0]);
        EXPECT_EQ(turn->replies[0].error().code, ErrorCode::Refused);
        EXPECT_NE(turn->replies[0].error().message.find(folder_), std::string::npos);
    }
    EXPECT_EQ(engine.state().jobs.size(), 1u);
    make_room();
    ASSERT_TRUE(submit(engine, "second")->replies[0]);
    EXPECT_EQ(*ledger->load(), engine.state());
    const core::State before = engine.state();
    ledger = tl::unexpected(Error{});
    ledger = Ledger::open(folder_);
    ASSERT_TRUE(ledger) << ledger.error().message;
    EXPECT_EQ(*ledger->load(), before);
}

TEST_F(FullVolume, IsNotTakenForDamageAtTheStart) {
    if (!make_small_volume(folder_)) GTEST_SKIP() << "no mount namespaces here";
    ASSERT_TRUE(Ledger::open(folder_));
    fill();
    const auto refused = Ledger::open(folder_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::Refused);
    EXPECT_NE(refused.error().message.find("is full"), std::string::npos);
    EXPECT_EQ((refused.error().message + refused.error().hint).find("restore"), std::string::npos);
    make_room();
    EXPECT_TRUE(Ledger::open(folder_));
}

// Restores a backup on a read-only volume, whose files may not be written either.
void expect_restore(const std::filesystem::path& backup, const std::filesystem::path& state) {
    std::filesystem::create_directory(state);
    const auto restored = restore(backup, state, 1, kFirstHour);
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_EQ(Ledger::open(state)->load()->jobs.size(), 1u);
    for (const char* name : {"ledger.db", "ledger.mark"})
        EXPECT_EQ(std::filesystem::status(state / name).permissions(),
                  std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(FullVolume, ThatIsMountedReadOnlyCanBeBackedUpAndABackupThereCanBeRestored) {
    if (!make_small_volume(folder_)) GTEST_SKIP() << "no mount namespaces here";
    const std::filesystem::path state = folder_ + "/state";
    const std::filesystem::path copy = folder_ + "-copy";
    std::int64_t written = 0;
    const auto make_read_only = [&](bool yes) {
        return ::mount(nullptr, folder_.c_str(), nullptr, MS_REMOUNT | (yes ? MS_RDONLY : 0),
                       nullptr) == 0;
    };
    {
        auto ledger = Ledger::open(folder_ + "/served");
        engine::Engine engine(*ledger->load(), {[&](std::span<const core::Event> events, Time at) {
                                                    return ledger->append(events, at);
                                                },
                                                [&] { return ledger->load(); }});
        ASSERT_TRUE(submit(engine, "first")->replies[0]);
        written = ledger->newest();
        // These are the files that a killed rolld leaves.
        std::filesystem::create_directory(state);
        for (const char* name : {"ledger.db", "ledger.db-wal", "ledger.mark"}) {
            std::filesystem::copy_file(folder_ + "/served/" + name, state / name);
            std::filesystem::permissions(state / name, std::filesystem::perms::owner_read);
        }
    }
    ASSERT_TRUE(make_read_only(true));
    const auto newest = back_up(state, copy);
    ASSERT_TRUE(newest) << newest.error().message;
    EXPECT_EQ(*newest, written);
    EXPECT_EQ(Ledger::open(copy)->load()->jobs.size(), 1u);
    EXPECT_EQ(back_up(state, copy).error().message, copy.string() + " exists");
    std::filesystem::remove_all(copy);
    std::ofstream(copy) << "a file";
    EXPECT_EQ(back_up(state, copy).error().message, copy.string() + " exists");
    std::filesystem::remove(copy);
    expect_restore(state, copy);
    std::filesystem::remove_all(copy);

    ASSERT_TRUE(make_read_only(false));
    std::filesystem::resize_file(state / "ledger.db-wal", 100);
    ASSERT_TRUE(make_read_only(true));
    const auto torn = back_up(state, copy);
    ASSERT_FALSE(torn);
    EXPECT_EQ(torn.error().code, ErrorCode::Corrupt);
    EXPECT_EQ(torn.error().message.find((state / "ledger.db").string() + " is damaged"), 0u)
        << torn.error().message;
    const std::string told = torn.error().message + torn.error().hint;
    EXPECT_EQ(told.find(copy.string() + ".tmp"), std::string::npos) << told;
    EXPECT_FALSE(std::filesystem::exists(copy));

    ASSERT_TRUE(make_read_only(false));
    std::filesystem::remove(state / "ledger.mark");
    ASSERT_TRUE(make_read_only(true));
    const auto unmarked = back_up(state, copy);
    ASSERT_FALSE(unmarked);
    EXPECT_EQ(unmarked.error().message.find("the state directory " + state.string() +
                                            " has no ledger.mark"),
              0u)
        << unmarked.error().message;
}

}  // namespace
}  // namespace roll::ledger
