// Kills a writer of checkpoints at random moments. Each checkpoint under a final name must verify.
#include <csignal>
#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/hash.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/checkpoint/manifest.hpp"
#include "worker/checkpoint/part.hpp"
#include "worker/checkpoint/staging.hpp"

namespace roll::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 60;

// Saves a checkpoint at each step, publishes it as roll-worker does, and deletes the previous one.
[[noreturn]] void write_for_ever(const fs::path& root) {
    for (std::int64_t step = 1;; ++step) {
        const Name name{step, {1, 1}};
        const std::string content(5000, 'x');
        const auto directory = begin_stage(root, name);
        if (!directory) ::_exit(2);
        for (int rank = 0; rank < 4; ++rank) {
            const std::string file = "a/b/" + std::to_string(rank);
            fs::create_directories(*directory / "a/b");
            std::ofstream(*directory / file) << content;
            const Part part{name, {{file, content.size(), hash64(content)}}, {}};
            if (!write_part(*directory, rank, part)) ::_exit(5);
        }
        const auto fill = [](const fs::path& head) {
            return write_file_atomically(head / "config", "x");
        };
        const auto staged = seal_parts(root, name, 4, fill);
        if (!staged || !rename_new(*staged, root / final_name({step, {1, 1}}))) ::_exit(3);
        if (!remove(root, {step - 2, {1, 1}})) ::_exit(4);
    }
}

TEST(Crash, KillsAtRandomMomentsLeaveOnlyWholeCheckpoints) {
    const TemporaryFolder root;
    std::mt19937 random(7);
    int whole = 0, staged_leftovers = 0;
    for (int round = 0; round < kRounds; ++round) {
        const fs::path folder = root / std::to_string(round);
        fs::create_directories(folder);
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) write_for_ever(folder);
        ::usleep(static_cast<useconds_t>(2000 + random() % 40000));
        ::kill(child, SIGKILL);
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
        for (const auto& entry : fs::directory_iterator(folder)) {
            const std::string name = entry.path().filename();
            staged_leftovers += parse_staged_name(name).has_value();
            if (!parse_final_name(name)) continue;
            const auto verified = verify(entry.path());
            ASSERT_TRUE(verified) << verified.error().message;
            ++whole;
        }
        EXPECT_TRUE(sweep(folder, {2, 1}));
        for (const auto& entry : fs::directory_iterator(folder))
            EXPECT_TRUE(parse_final_name(entry.path().filename().string())) << entry.path();
    }
    std::printf("%d whole, %d killed while staging\n", whole, staged_leftovers);
    EXPECT_GT(staged_leftovers, 0);
}

}  // namespace
}  // namespace roll::checkpoint
