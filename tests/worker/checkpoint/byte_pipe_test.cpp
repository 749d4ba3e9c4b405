#include "worker/checkpoint/byte_pipe.hpp"

#include <future>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace roll::checkpoint {
namespace {

TEST(BytePipe, PassesMoreBytesThanItHoldsInOrder) {
    std::vector<std::byte> ring(24);
    BytePipe pipe(ring);
    std::thread producer([&] {
        for (int next = 0; next < 1000;) {
            const auto room = pipe.room(static_cast<std::size_t>(1000 - next));
            for (std::byte& byte : room) byte = static_cast<std::byte>(next++);
            pipe.commit(room.size());
        }
    });
    int seen = 0;
    for (const std::size_t size : {1, 7, 24, 8}) {
        for (int i = 0; i < 25; ++i) {
            for (const auto& span : pipe.await(size))
                for (const std::byte byte : span) EXPECT_EQ(byte, static_cast<std::byte>(seen++));
            pipe.release(size);
        }
    }
    EXPECT_EQ(seen, 1000);
    producer.join();
    pipe.abandon();
    EXPECT_TRUE(pipe.await(1)[0].empty());
    pipe.stop();
    pipe.commit(24);
    EXPECT_TRUE(pipe.room(1).empty());
}

TEST(BytePipe, GivesNothingBeforeItIsFullOrTheProducerHasFinished) {
    for (const bool fills : {true, false}) {
        std::vector<std::byte> ring(24);
        BytePipe pipe(ring);
        pipe.commit(pipe.room(23).size());
        std::future<std::size_t> taken = std::async(std::launch::async, [&] {
            const std::size_t size = pipe.await(8)[0].size();
            pipe.release(size);
            return size;
        });
        EXPECT_EQ(taken.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
        if (fills)
            pipe.commit(pipe.room(1).size());
        else
            pipe.finish();
        EXPECT_EQ(taken.get(), 8U);
        EXPECT_EQ(pipe.await(8)[0].size(), 8U);  // the consumer does not wait a second time
    }
}

}  // namespace
}  // namespace roll::checkpoint
