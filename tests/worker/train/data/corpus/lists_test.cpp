// A .json with a list of records: the same tokens as those of a .jsonl, and bad records.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "common/json.hpp"
#include "common/json_records.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/train/data/corpus/prepare.hpp"
#include "worker/train/data/corpus/token_file.hpp"

namespace roll::data {
namespace {

namespace fs = std::filesystem;
using tokenizer::Tokenizer;

class Lists : public testing::Test {
  protected:
    // Writes a file, and tokenizes it in slices of a few records.
    Result<std::optional<Prepared>> made(const std::string& name, const std::string& text,
                                         bool skip_bad = false) {
        EXPECT_TRUE(write_file_atomically(top_ / name, text));
        PrepareOptions options;
        options.directory = top_ / (name + ".tokens");
        options.threads = 3;
        options.skip_bad_lines = skip_bad;
        options.rules.slice_bytes = 200;
        options.rules.end_token = 0;
        return prepare(top_ / name, Tokenizer::bytes(), options,
                       [](const PrepareProgress&) { return true; });
    }
    static std::string tokens(const fs::path& bin) {
        return read_file(bin).value_or("") +
               read_file(fs::path(bin).replace_extension(".idx")).value_or("");
    }

    TemporaryFolder top_;
};

TEST_F(Lists, HaveTheTokensOfTheSameLines) {
    const std::vector<std::string> texts = {"a ] } , b",    "say \"x\\\" \\", "[",
                                            "odd \" ] , {", "two\nlines",     "é"};
    Json list = Json::array();
    std::string lines;
    for (std::size_t i = 0; i < 400; ++i) {
        const Json record{{"text", texts[i % texts.size()] + std::to_string(i)},
                          {"more", {{"x", {1, "]"}}}}};
        list.push_back(record);
        lines += record.dump() + "\n";
    }
    const auto expected = made("lines.jsonl", lines);
    ASSERT_TRUE(expected) << expected.error().message;
    const std::string wanted = tokens(expected->value().bin);
    EXPECT_GT(wanted.size(), 4000U);
    const std::pair<const char*, std::string> files[] = {{"pretty.json", list.dump(2)},
                                                         {"short.json", " " + list.dump() + "\n"},
                                                         {"lines.json", lines}};
    for (const auto& [name, text] : files) {
        const auto got = made(name, text);
        ASSERT_TRUE(got) << name << ": " << got.error().message;
        EXPECT_TRUE(tokens(got->value().bin) == wanted) << name;
    }
}

TEST_F(Lists, BadRecordsAreNamedOrLeftOut) {
    const auto told = [&](const std::string& text) {
        const auto found = made("list.json", text);
        return found ? std::string() : found.error().message;
    };
    EXPECT_TRUE(told("[{\"text\": \"a\"},\n\n {\"text\": 3}]\n")
                    .ends_with("list.json, record 2: its field \"text\" is not a string; correct "
                               "this record, or set `data.on_bad_line: skip` to leave out such "
                               "records"));
    for (const char* text :
         {"[{\"text\": \"a\"}, {\"text\": \"b\"", "[{\"text\": \"a\"}] x", "[{\"text\": \"a\"}, x]",
          "[{\"text\": \"a\"}, {\"text\": \"b\"} {\"text\": \"c\"}]"})
        EXPECT_NE(told(text).find("list.json, record 2: "), std::string::npos) << text;
    const auto rest = made("skip.json", "[{\"text\": \"a\"}, 7, {\"text\": \"b\"}]", true);
    ASSERT_TRUE(rest) << rest.error().message;
    EXPECT_EQ(rest->value().bad_lines, 1U);
    EXPECT_EQ(TokenFile::open_indexed(rest->value().bin).value().tokens().size(), 4U);
}

TEST_F(Lists, TheFirstRecordIsFound) {
    EXPECT_EQ(first_record("\n[ {\"a\": [1]} , 2]", true), "{\"a\": [1]}");
    EXPECT_EQ(first_record("\n\n {} \n{\"a\": 1}", false), "{}");
    for (const char* text : {"[]", " [ ]\n"}) EXPECT_EQ(first_record(text, true), "") << text;
    EXPECT_TRUE(is_json_list("\r\n [1]"));
    EXPECT_FALSE(is_json_list("{\"a\": [1]}"));
    EXPECT_FALSE(is_json_list(""));
}

}  // namespace
}  // namespace roll::data
