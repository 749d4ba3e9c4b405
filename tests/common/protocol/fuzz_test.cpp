// Decodes truncated, bit-flipped and random frames. They must decode or fail, but never crash.
#include <random>

#include <gtest/gtest.h>

#include "tests/common/protocol/samples.hpp"

namespace roll::protocol {
namespace {

// Runs every decoder on one frame. A value that decodes must encode again.
void feed(std::string_view frame) {
    if (const auto value = decode_heartbeat(frame)) static_cast<void>(encode(*value));
    if (const auto value = decode_answer(frame)) static_cast<void>(encode(*value));
    if (const auto value = decode_launch(frame)) static_cast<void>(encode(*value));
    if (const auto value = decode_request(frame)) static_cast<void>(encode(*value));
    if (const auto value = decode_report(frame)) static_cast<void>(encode(*value));
    if (const auto value = decode_command(frame)) static_cast<void>(encode(*value));
    static_cast<void>(decode_reply(frame, 7));
    static_cast<void>(request_id(frame));
}

std::vector<std::string> samples() {
    return {encode(sample_heartbeat()),
            encode(sample_answer()),
            encode(sample_launch()),
            encode(Request{7, "submit", {{"key", "k"}}}),
            encode_reply(7, Json{{"a", 1}}),
            encode_reply(7, Error{ErrorCode::Refused, "no", "yes"}),
            encode(Report{CheckpointPruned{3, Token{1, 2}}}),
            encode(Command{StopAtStep{true}})};
}

TEST(Fuzz, TruncatedFramesAreRefused) {
    for (const std::string& sample : samples()) {
        for (std::size_t n = 0; n < sample.size(); ++n) {
            const std::string_view cut = std::string_view(sample).substr(0, n);
            EXPECT_FALSE(decode_heartbeat(cut));
            feed(cut);
        }
    }
}

TEST(Fuzz, FlippedBitsDoNoHarm) {
    for (const std::string& sample : samples()) {
        for (std::size_t bit = 0; bit < sample.size() * 8; bit += 3) {
            std::string flipped = sample;
            flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
            feed(flipped);
        }
    }
}

TEST(Fuzz, RandomBytesDoNoHarm) {
    std::mt19937_64 random(20261121);
    for (int i = 0; i < 5'000; ++i) {
        std::string frame(random() % 200, '\0');
        for (char& c : frame) c = static_cast<char>(random());
        feed(frame);
    }
}

// Swaps values, which makes valid JSON that is not a valid message.
void swap_values(Json& json, std::mt19937_64& random) {
    static const std::vector<Json> kOdd = {nullptr,
                                           true,
                                           -1,
                                           1e308,
                                           18446744073709551615u,
                                           "",
                                           "3-",
                                           "9999999999999999999999-1",
                                           Json::array(),
                                           Json::object(),
                                           Json::array({nullptr})};
    if (json.empty() || !json.is_structured() || random() % 4 == 0) {
        json = kOdd[random() % kOdd.size()];
        return;
    }
    auto at = json.begin();
    std::advance(at, random() % json.size());
    swap_values(*at, random);
}

TEST(Fuzz, WellFormedNonsenseDoesNoHarm) {
    std::mt19937_64 random(7);
    const auto all = samples();
    for (int i = 0; i < 5'000; ++i) {
        Json json = Json::parse(all[random() % all.size()]);
        swap_values(json, random);
        feed(json.dump());
    }
}

TEST(Fuzz, DeepNestingIsRefused) {
    feed(std::string(100'000, '['));
    feed(R"({"v":1,"id":1,"op":"x","args":)" + std::string(5000, '[') + std::string(5000, ']') +
         "}");
}

}  // namespace
}  // namespace roll::protocol
