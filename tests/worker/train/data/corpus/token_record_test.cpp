// Tests the records of token files: they detect changed text and changed bytes, and replace a text
// that no longer exists.
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "common/hash.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/train/data/corpus/prepare.hpp"

namespace roll::data {
namespace {

namespace fs = std::filesystem;

bool go_on(const PrepareProgress&) { return true; }

class Records : public testing::Test {
  protected:
    void put(const std::string& lines, fs::file_time_type time = {}) {
        std::ofstream(source_, std::ios::binary) << lines;
        fs::last_write_time(source_, time);
    }
    PrepareOptions options(const char* folder = "tokens") const {
        PrepareOptions options;
        options.directory = folder_ / folder;
        return options;
    }
    Result<std::optional<Prepared>> prepared(const PrepareOptions& options) const {
        return prepare(source_, bytes_, options, go_on);
    }
    Prepared made() const { return *prepared(options()).value(); }
    static std::string content(const Prepared& one) {
        const auto bin = MappedFile::open(one.bin).value();
        return whole_hash(bin.bytes(), go_on).value();
    }

    TemporaryFolder folder_;
    fs::path source_ = folder_ / "lines.jsonl";
    tokenizer::Tokenizer bytes_ = tokenizer::Tokenizer::bytes();
};

const std::string kOne = "{\"text\": \"one text\"}\n", kTwo = "{\"text\": \"two text\"}\n";

TEST_F(Records, AnotherTextOfTheSameSizeAndTimeIsTokenizedAgain) {
    put(kOne);
    const Prepared first = made();
    EXPECT_EQ(first.record.hash, content(first));
    EXPECT_EQ(first.record.source, source_.string());
    EXPECT_FALSE(made().was_stale);
    put(kTwo);
    const Prepared second = made();
    EXPECT_EQ(second.bin, first.bin);
    EXPECT_TRUE(second.was_stale);
    EXPECT_NE(second.record.hash, first.record.hash);
    EXPECT_EQ(second.record.hash, content(second));
    EXPECT_FALSE(made().was_stale);
}

TEST_F(Records, ATextThatIsGoneIsNotMissed) {
    put(kOne);
    const Prepared first = made();
    fs::remove(source_);
    const Prepared found = made();
    EXPECT_TRUE(found.source_is_gone);
    EXPECT_EQ(found.bin, first.bin);
    // Tokens also depend on the rules.
    PrepareOptions other = options();
    other.rules.field = "words";
    EXPECT_EQ(prepared(other).error().code, ErrorCode::NotFound);
    // A job in another place finds them in the previous job's directory.
    PrepareOptions elsewhere = options("others");
    EXPECT_EQ(prepared(elsewhere).error().message,
              source_.string() + ": No such file, and " + elsewhere.directory.string() +
                  " has no tokens that were made from this file; correct the path");
    elsewhere.elsewhere = {options().directory};
    EXPECT_EQ((*prepared(elsewhere))->bin, first.bin);
}

TEST_F(Records, OfSeveralStatesOfATextTheCheckpointsCounts) {
    put(kOne, fs::file_time_type(std::chrono::seconds(1)));
    const Prepared first = made();
    put(kTwo, fs::file_time_type(std::chrono::seconds(2)));
    const Prepared second = made();
    ASSERT_NE(first.bin, second.bin);
    fs::remove(source_);
    const auto asked = prepared(options());
    ASSERT_FALSE(asked);
    EXPECT_NE(asked.error().message.find("has tokens of 2 versions of this file"),
              std::string::npos);
    PrepareOptions wanted = options();
    wanted.hashes = {"0", first.record.hash};
    EXPECT_EQ((*prepared(wanted))->bin, first.bin);
    wanted.hashes = {second.record.hash};
    EXPECT_EQ((*prepared(wanted))->bin, second.bin);
}

TEST_F(Records, ChangedTokensAreNoticed) {
    put(kOne);
    const Prepared first = made();
    const auto check = [&](bool all) {
        const auto bin = MappedFile::open(first.bin).value();
        return check_tokens(first.bin, bin.bytes(), first.record, all, go_on);
    };
    EXPECT_TRUE(check(false).value() && check(true).value());
    std::fstream(first.bin, std::ios::in | std::ios::out | std::ios::binary).put('Z');
    for (const bool all : {false, true})
        EXPECT_EQ(check(all).error().message, first.bin.string() +
                                                  " has changed since it was written; delete this "
                                                  "file and its .idx, and Roll creates both again");
}

TEST_F(Records, AllOfATextIsReadWhenAsked) {
    std::string lines;
    for (int i = 0; i < 2'000; ++i) lines += "{\"text\": \"line " + std::to_string(i) + "\"}\n";
    put(lines);
    PrepareOptions small = options();
    small.rules.slice_bytes = 600;
    const Prepared first = *prepared(small).value();
    const auto same = [&] {
        return verify_text(source_, bytes_, small, first.record, go_on).value();
    };
    EXPECT_EQ(same(), true);
    lines[lines.size() / 2] ^= 1;
    put(lines);
    EXPECT_EQ(same(), false);
    TokenRecord unknown = first.record;
    unknown.text_hash.clear();
    EXPECT_EQ(verify_text(source_, bytes_, small, unknown, go_on).value(), std::nullopt);
}

// Token files of a version without records get a record, made once.
TEST_F(Records, AnEarlierVersionsTokensAreTakenOver) {
    put(kOne);
    const Prepared first = made();
    const auto record = fs::path(first.bin).replace_extension(".made");
    fs::remove(record);
    const auto written = fs::last_write_time(first.bin);
    const Prepared again = made();
    EXPECT_EQ(fs::last_write_time(first.bin), written);
    EXPECT_EQ(again.record.hash, first.record.hash);
    EXPECT_EQ(again.record.text_hash, "");
    EXPECT_TRUE(fs::exists(record));
}

// The rules in a record are compared with those of a stored job, so they must not change with a
// version.
TEST_F(Records, AStoredJobOfAnEarlierVersionFindsItsTokens) {
    put("{\"prompt\": \"a\", \"completion\": \"b\"}\n");
    PrepareOptions stored = options();
    stored.tokenizer = "bytes";
    stored.rules.completions = true;
    stored.rules.field = "story";
    TokenRecord earlier = (*prepared(stored))->record;
    EXPECT_EQ(earlier.rules, Json::parse(R"({"rules": 1, "tokenizer": "bytes", "field": "story",
        "add_special": true, "end_token": -1, "slice_bytes": 1048576, "skip_bad_lines": false,
        "fields": ["prompt", "completion"], "pairs": {"rules": 2, "train_on": 0}})"));
    earlier.rules.erase("pairs");
    fs::path base = (*prepared(stored))->bin;
    ASSERT_TRUE(write_record(base.replace_extension(), earlier));
    fs::remove(source_);
    EXPECT_TRUE((*prepared(stored))->source_is_gone);
}

TEST_F(Records, TokensWithoutTheTextsAreNotThoseOfAJobThatAsksForTexts) {
    put(kOne + "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
    PrepareOptions pairs = options();
    pairs.rules.completions = true;
    pairs.skip_bad_lines = true;
    ASSERT_TRUE(prepared(pairs));
    fs::remove(source_);
    ASSERT_TRUE(prepared(pairs));
    pairs.rules.texts = true;
    ASSERT_FALSE(prepared(pairs));
    EXPECT_EQ(prepared(pairs).error().code, ErrorCode::NotFound);
}

TEST(Fingerprint, ATerabyteCostsAsMuchAsAFewMegabytes) {
    const TemporaryFolder folder;
    const fs::path path = folder / "huge.bin";
    std::ofstream(path).put('x');
    fs::resize_file(path, std::uintmax_t{1} << 40U);  // a sparse file
    const auto hash = [&] { return sample_hash(MappedFile::open(path).value().bytes()); };
    const std::string before = hash();
    const auto change = [&](std::uint64_t at) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(at));
        file.put('y');
    };
    std::set<std::string> seen = {before};
    for (const std::uint64_t at : {std::uint64_t{0}, (std::uint64_t{1} << 40U) - 1,
                                   ((std::uint64_t{1} << 40U) - (256 << 10)) / 63}) {
        change(at);
        EXPECT_TRUE(seen.insert(hash()).second) << at;
    }
    fs::resize_file(path, (std::uintmax_t{1} << 40U) + 1);
    EXPECT_TRUE(seen.insert(hash()).second);
}

TEST(Fingerprint, OfASmallFileEveryByteCounts) {
    std::vector<std::byte> bytes(std::size_t{16} << 20U);
    const std::string before = sample_hash(bytes);
    EXPECT_EQ(before, to_hex(hash64(bytes)));
    EXPECT_EQ(before, whole_hash(bytes, go_on));
    bytes[777'777] = std::byte{1};
    EXPECT_NE(sample_hash(bytes), before);
    EXPECT_EQ(whole_hash(bytes, [](const PrepareProgress&) { return false; }), std::nullopt);
}

}  // namespace
}  // namespace roll::data
