#include "daemon/files/readers.hpp"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

namespace roll::files {
namespace {

using namespace std::chrono_literals;

// A volume that hangs until it is released. The threads share its state, because they may outlive
// the test.
class Volume {
  public:
    Readers::Read hang() {
        return [state = state_]() -> Result<Json> {
            std::unique_lock lock(state->mutex);
            ++state->hanging;
            state->changed.notify_all();
            state->changed.wait(lock, [&] { return state->released; });
            return Json("late");
        };
    }
    void await_hanging(int count) {
        std::unique_lock lock(state_->mutex);
        state_->changed.wait(lock, [&] { return state_->hanging >= count; });
    }
    void release() {
        const std::lock_guard lock(state_->mutex);
        state_->released = true;
        state_->changed.notify_all();
    }

  private:
    struct State {
        std::mutex mutex{};
        std::condition_variable changed{};
        int hanging = 0;
        bool released = false;
    };
    std::shared_ptr<State> state_ = std::make_shared<State>();
};

struct Answers {
    Readers::Answer add() {
        return [this](const Result<Json>& answer) {
            texts.push_back(answer ? answer->get<std::string>() : answer.error().message);
        };
    }
    std::vector<std::string> texts{};
};

Readers::Read says(const char* text) {
    return [text]() -> Result<Json> { return Json(text); };
}

TEST(Readers, AReadIsAnsweredOnTheContext) {
    boost::asio::io_context io;
    Readers readers(io);
    Answers answers;
    for (const char* text : {"a", "b", "c"}) readers.start("/x", says(text), answers.add());
    EXPECT_TRUE(answers.texts.empty());
    io.run();  // ends when nothing waits
    std::ranges::sort(answers.texts);
    EXPECT_EQ(answers.texts, (std::vector<std::string>{"a", "b", "c"}));
}

TEST(Readers, AVolumeThatHangsIsAnsweredInTimeAndOthersAreServed) {
    boost::asio::io_context io;
    Volume volume;
    Answers answers;
    {
        Readers readers(io, {.threads = 2, .waiting = 4, .patience = 1000ms});
        readers.start("/hangs", volume.hang(), answers.add());
        volume.await_hanging(1);
        readers.start("/x", says("a"), answers.add());
        io.run();
        EXPECT_EQ(
            answers.texts,
            (std::vector<std::string>{
                "a",
                "/hangs was not read within 1000 ms; its volume may have stopped responding"}));
        answers.texts.clear();
        io.restart();
        for (int i = 0; i < 4; ++i) readers.start("/hangs", volume.hang(), answers.add());
        readers.start("/y", says("b"), answers.add());
        EXPECT_EQ(answers.texts,
                  (std::vector<std::string>{
                      "/y was not read, because rolld is already reading 4 files for clients, 4 of "
                      "them on this volume; a volume may have stopped responding"}));
        io.run();
        EXPECT_EQ(answers.texts.size(), 5);
    }
    volume.release();
    io.restart();
    io.run();
    EXPECT_EQ(answers.texts.size(), 5) << "a late result is dropped";
}

TEST(Readers, AVolumeThatHangsLeavesThreadsForOtherVolumes) {
    EXPECT_EQ(volume_of("/proc/self/x"), "/proc");
    EXPECT_EQ(volume_of("/process"), "/");
    boost::asio::io_context io;
    Volume volume;
    Answers answers;
    Readers readers(io, {.threads = 3,
                         .waiting = 64,
                         .threads_of_volume = 2,
                         .waiting_of_volume = 4,
                         .patience = 1000ms});
    for (int i = 0; i < 4; ++i) readers.start("/proc/hangs", volume.hang(), answers.add());
    volume.await_hanging(2);
    readers.start("/proc/more", says("none"), answers.add());
    ASSERT_EQ(answers.texts.size(), 1);
    EXPECT_TRUE(answers.texts[0].starts_with("/proc/more was not read")) << answers.texts[0];
    readers.start("/x", says("a"), answers.add());
    io.run();
    ASSERT_EQ(answers.texts.size(), 6);
    EXPECT_EQ(answers.texts[1], "a") << "read before the time of the others was over";
    volume.release();
}

TEST(Readers, ThreadsGoOnAfterTheVolumeAnswersAgain) {
    boost::asio::io_context io;
    Volume volume;
    Answers answers;
    Readers readers(io, {.threads = 1, .waiting = 4, .patience = 50ms});
    readers.start("/hangs", volume.hang(), answers.add());
    volume.await_hanging(1);
    io.run();
    volume.release();
    // On a busy machine, the thread may need more than one try to answer in time.
    for (int i = 0; i < 100 && answers.texts.back() != "a"; ++i) {
        io.restart();
        readers.start("/x", says("a"), answers.add());
        io.run();
    }
    EXPECT_EQ(answers.texts.back(), "a");
}

}  // namespace
}  // namespace roll::files
