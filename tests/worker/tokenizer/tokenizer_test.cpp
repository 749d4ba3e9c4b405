#include "worker/tokenizer/tokenizer.hpp"

#include <random>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "common/base64.hpp"
#include "common/json.hpp"
#include "worker/tokenizer/ids_end.hpp"
#include "worker/tokenizer/normal_form.hpp"
#include "worker/tokenizer/pattern.hpp"
#include "worker/tokenizer/precompiled.hpp"
#include "worker/tokenizer/same_ids.hpp"
#include "worker/tokenizer/unicode.hpp"

namespace roll::tokenizer {
namespace {

using Ids = std::vector<std::uint32_t>;

std::vector<std::string> pieces(const char* expression, const std::string& text) {
    const Result<Pattern> pattern = Pattern::compile(expression);
    EXPECT_TRUE(pattern.has_value()) << pattern.error().message;
    std::vector<std::string> result;
    pattern->split(text, [&](std::size_t begin, std::size_t end, bool is_match) {
        result.push_back((is_match ? "" : "!") + text.substr(begin, end - begin));
    });
    return result;
}

// Returns a small tokenizer file of characters: a, b, c, a space as itself, and the merges ab, abc.
Json small_file() {
    return Json{
        {"version", "1.0"},
        {"truncation", nullptr},
        {"padding", nullptr},
        {"added_tokens", Json::array({{{"id", 7},
                                       {"content", "<s>"},
                                       {"single_word", false},
                                       {"lstrip", false},
                                       {"rstrip", true},
                                       {"normalized", false},
                                       {"special", true}}})},
        {"normalizer", nullptr},
        {"pre_tokenizer", nullptr},
        {"post_processor", nullptr},
        {"decoder", {{"type", "Fuse"}}},
        {"model",
         {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", "?"},
          {"fuse_unk", true},
          {"byte_fallback", false},
          {"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {" ", 3}, {"ab", 4}, {"abc", 5}, {"?", 6}}},
          {"merges", {"a b", "ab c"}}}}};
}

// Returns a tokenizer file that has every kind of part.
Json large_file() {
    Json file = small_file();
    const auto part = [](const char* type, Json fields) {
        fields["type"] = type;
        return fields;
    };
    file["normalizer"] =
        part("Sequence",
             {{"normalizers",
               {part("NFC", Json::object()), part("Prepend", {{"prepend", "a"}}),
                part("Replace", {{"pattern", {{"Regex", "b{2,3}|c(?=a)"}}}, {"content", "c"}})}}});
    file["pre_tokenizer"] = part(
        "Sequence",
        {{"pretokenizers",
          {part("Digits", {{"individual_digits", true}}),
           part("Metaspace", {{"replacement", "b"}, {"prepend_scheme", "first"}, {"split", true}}),
           part("Split", {{"pattern", {{"Regex", R"((?i:'s)?|[^\r\p{L}]?\p{L}+|\s+(?!\S)|\s+)"}}},
                          {"behavior", "MergedWithNext"},
                          {"invert", false}}),
           part("ByteLevel", {{"add_prefix_space", true}, {"use_regex", true}})}}});
    file["decoder"] =
        part("Sequence",
             {{"decoders",
               {part("Replace", {{"pattern", {{"String", "a"}}}, {"content", "b"}}),
                part("ByteFallback", Json::object()),
                part("Strip", {{"content", "b"}, {"start", 1}, {"stop", 1}}),
                part("Metaspace", {{"replacement", "b"}}), part("ByteLevel", Json::object())}}});
    file["post_processor"] =
        part("TemplateProcessing",
             {{"single",
               {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
              {"pair", Json::array()},
              {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {7}}, {"tokens", {"<s>"}}}}}}});
    return file;
}

std::string refusal(const Json& file) {
    const Result<Tokenizer> tokenizer = Tokenizer::parse(file.dump());
    return tokenizer ? "" : tokenizer.error().message;
}

TEST(Pattern, TriesBranchesInOrderAndGivesBackWhatTheRestNeeds) {
    EXPECT_EQ(pieces(R"(\s+(?!\S)|\s+)", "  a "), (std::vector<std::string>{" ", " ", "!a", " "}));
    EXPECT_EQ(pieces(R"(\p{N}{1,3})", "12345x"), (std::vector<std::string>{"123", "45", "!x"}));
    EXPECT_EQ(pieces(R"((?i:'s|'ll)|[^'])", "'S'lLx'\xC5\xBF"),
              (std::vector<std::string>{"'S", "'lL", "x", "'\xC5\xBF"}));
    EXPECT_EQ(pieces(R"([^\r\n\p{L}]?+\p{L}+(?:-x)?)", "(ab-x"),
              (std::vector<std::string>{"(ab-x"}));
    EXPECT_EQ(pieces("[a-c\\]]++", "ab]-"), (std::vector<std::string>{"ab]", "!-"}));
}

TEST(Pattern, RefusesWhatIsNotBuiltByName) {
    for (const char* wrong : {"a+?", "(ab)+", "^a", "\\p{Han}", "(?<x>a)", "a{2,1}", "(a", "a)",
                              "[a", "\\1", "(?:a|b)*", "[a&&b]", "\\", "a**", "a{99999}"}) {
        const Result<Pattern> pattern = Pattern::compile(wrong);
        ASSERT_FALSE(pattern.has_value()) << wrong;
        EXPECT_NE(pattern.error().message.find(wrong), std::string::npos);
    }
}

TEST(Unicode, EachMaximalPartOfABrokenSequenceIsOneReplacement) {
    const std::string r = "\xEF\xBF\xBD";
    EXPECT_EQ(replace_broken("a\xFFz"), "a" + r + "z");
    EXPECT_EQ(replace_broken("\xE2\x82"), r);
    EXPECT_EQ(replace_broken("\xE2\x82x"), r + "x");
    EXPECT_EQ(replace_broken("\xED\xA0\x80"), r + r + r);  // the bytes of a surrogate
    EXPECT_EQ(replace_broken("\xF4\x90\x80\x80"), r + r + r + r);
    EXPECT_EQ(replace_broken("\xC0\xAF"), r + r);
    EXPECT_EQ(valid_prefix("\xF0\x9F\x98\x80"), 4U);
}

TEST(Unicode, HasTheCharactersOfUnicode16) {
    const PropertyTable& table = PropertyTable::get();
    EXPECT_EQ(table.of(U'A'), bit(Category::Lu));
    EXPECT_EQ(table.of(U'\u1c89'), bit(Category::Lu)) << "since Unicode 16";
    EXPECT_EQ(table.of(U'\U0002ebf0'), bit(Category::Lo)) << "since Unicode 15.1";
    EXPECT_EQ(table.of(U'\U0001171e'), bit(Category::Mc)) << "Mn in Unicode 15";
    EXPECT_EQ(table.of(U'\U0010fffe'), bit(Category::Cn));
}

TEST(NormalForm, ComposesAndOrdersMarks) {
    EXPECT_EQ(composed("e\xCC\x81"), "\xC3\xA9");
    EXPECT_EQ(composed("a\xCC\x81\xCC\xA3"), "\xE1\xBA\xA1\xCC\x81");
    EXPECT_EQ(composed("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8"), "\xEA\xB0\x81");
    EXPECT_EQ(composed("\xE2\x84\xAB"), "\xC3\x85");  // U+212B, the angstrom sign
    // characters that Unicode 9 does not have are not put in order, and the syllable keeps U+11A7
    EXPECT_EQ(composed("a\u0301\u08d3"), "\u00e1\u08d3");
    EXPECT_EQ(composed("a\u0316\u08d3\u0301"), "a\u0316\u08d3\u0301");
    EXPECT_EQ(composed("\ud034\u11a7e\u0301"), "\ud034\u11a7\u00e9");
}

TEST(Tokenizer, MergesByRankFusesUnknownsAndStripsAfterTokens) {
    const Result<Tokenizer> tokenizer = Tokenizer::parse(small_file().dump());
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode("abcab"), (Ids{5, 4}));
    EXPECT_EQ(tokenizer->encode("xya"), (Ids{6, 0}));
    EXPECT_EQ(tokenizer->encode("a<s>  b"), (Ids{0, 7, 1}));
    EXPECT_EQ(tokenizer->decode(Ids{5, 7, 3, 99}), "abc<s> ");
    EXPECT_EQ(tokenizer->decode(Ids{5, 7, 3}, true), "abc ");
    EXPECT_EQ(tokenizer->vocab_size(), 8U);
    EXPECT_EQ(tokenizer->id_of("<s>"), 7U);
    EXPECT_EQ(tokenizer->special_ids(), Ids{7});
}

TEST(Tokenizer, ALongWordMergesAsAShortOneDoes) {
    const Result<Tokenizer> tokenizer = Tokenizer::parse(small_file().dump());
    ASSERT_TRUE(tokenizer.has_value());
    std::string text;
    Ids expected;
    for (int i = 0; i < 500; ++i) {
        text += i % 3 == 0 ? "abc" : "ab";
        expected.push_back(i % 3 == 0 ? 5 : 4);
    }
    EXPECT_EQ(tokenizer->encode(text), expected);
}

TEST(Tokenizer, TellsWhereTheTokensOfATextEnd) {
    using Ends = std::vector<std::size_t>;
    const Tokenizer bytes = Tokenizer::bytes();
    EXPECT_EQ(bytes.ends_in("ab", bytes.encode("ab")), (Ends{1, 2}));
    EXPECT_EQ(bytes.ends_in("ab", bytes.encode("a")), std::nullopt);
    Json file = small_file();
    const auto characters = Tokenizer::parse(file.dump());
    ASSERT_TRUE(characters.has_value());
    EXPECT_EQ(characters->ends_in("abc", characters->encode("abc")), std::nullopt);
    file["pre_tokenizer"] = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
    const auto levels = Tokenizer::parse(file.dump());
    ASSERT_TRUE(levels.has_value()) << levels.error().message;
    const std::string text = "abc<s>ab";
    EXPECT_EQ(levels->ends_in(text, levels->encode(text)), (Ends{3, 6, 8}));
    EXPECT_EQ(levels->ends_in("abd<s>ab", levels->encode(text)), std::nullopt);
    EXPECT_EQ(levels->ends_in("abc<s>", levels->encode(text)), std::nullopt);
    EXPECT_EQ(levels->ends_in("abc<s>abc", levels->encode(text)), std::nullopt);
    const std::string stripped = "abc<s> ab";  // no token has the space
    EXPECT_EQ(levels->encode(stripped), levels->encode(text));
    EXPECT_EQ(levels->ends_in(stripped, levels->encode(stripped)), std::nullopt);
}

TEST(Tokenizer, BytesKeepsEveryByte) {
    const Tokenizer tokenizer = Tokenizer::bytes();
    const std::string text = "a\xFF\xC3(";
    EXPECT_EQ(tokenizer.encode(text), (Ids{'a', 0xFF, 0xC3, '('}));
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    EXPECT_EQ(tokenizer.vocab_size(), 256U);
}

TEST(Tokenizer, RefusesWhatIsNotBuiltByName) {
    const auto with = [](const char* key, const Json& value) {
        Json file = small_file();
        file[key] = value;
        return refusal(file);
    };
    const Json foo{{"type", "Foo"}};
    for (const char* part : {"normalizer", "pre_tokenizer", "decoder", "post_processor"})
        EXPECT_EQ(with(part, foo), std::string(part) + " \"Foo\" is not supported");
    EXPECT_EQ(with("model", foo), "model \"Foo\" is not supported");
    EXPECT_EQ(with("truncation", Json{{"max_length", 3}}), "truncation is not supported");
    EXPECT_NE(with("surprise", 1).find("surprise"), std::string::npos);
    Json file = small_file();
    file["model"]["merges"].push_back("a x");
    EXPECT_NE(refusal(file).find("a x"), std::string::npos);
    file = small_file();
    file["added_tokens"][0]["id"] = 3;
    EXPECT_NE(refusal(file).find("<s>"), std::string::npos);
}

TEST(Tokenizer, ThreadsGetTheSameIds) {
    const Result<Tokenizer> tokenizer = Tokenizer::parse(small_file().dump());
    ASSERT_TRUE(tokenizer.has_value());
    std::string text;
    for (int i = 0; i < 5000; ++i) text += "abc x"[(i * i + i / 7) % 5];
    const Ids expected = tokenizer->encode(text);
    std::vector<std::jthread> threads;
    std::array<int, 4> wrong{};
    for (int& count : wrong) {
        threads.emplace_back([&, mine = &count] {
            for (int i = 0; i < 50; ++i) *mine += tokenizer->encode(text) != expected;
        });
    }
    threads.clear();
    EXPECT_EQ(wrong, (std::array<int, 4>{}));
}

// A wrong file gives an Error, and any text gives ids; neither crashes.
TEST(Tokenizer, MutatedFilesAndRandomTextNeverCrash) {
    std::mt19937 random(7);
    ASSERT_EQ(refusal(large_file()), "");
    const std::string wholes[] = {small_file().dump(), large_file().dump()};
    int loaded = 0;
    for (int round = 0; round < 6000; ++round) {
        std::string file = wholes[round % 2];
        for (std::uint32_t i = 0; i <= random() % 3; ++i) {
            const std::size_t at = random() % file.size();
            switch (random() % 3) {
                case 0: file[at] = "0123456789\"{}[]:,abnulltrefs\xFF"[random() % 29]; break;
                case 1: file.erase(at, 1 + random() % 8); break;
                default: file.insert(at, file.substr(random() % file.size(), random() % 20)); break;
            }
        }
        const Result<Tokenizer> tokenizer = Tokenizer::parse(file);
        if (!tokenizer) continue;
        ++loaded;
        std::string text(random() % 60, ' ');
        for (char& byte : text)
            byte = static_cast<char>(random() % 4 == 0 ? random() : 'a' + random() % 4);
        tokenizer->decode(tokenizer->encode(text));
    }
    EXPECT_GT(loaded, 50);
}

// Returns a charsmap that replaces "a" by "bc" and nothing else. Its double array is written by
// hand: the root's children are at offset 1 ^ label.
std::string charsmap_of_one_letter() {
    std::vector<std::uint32_t> units(128, 0x80000000);
    units[0] = 1U << 10;                        // the root, with offset 1
    units[1 ^ 'a'] = 3U << 10 | 1U << 8 | 'a';  // a leaf; its value is at the leaf's own index ^ 3
    units[1 ^ 'a' ^ 3] = 0x80000000;            // value 0, the first replacement
    std::string bytes;
    const auto put = [&](std::uint32_t value) {
        for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> 8 * i & 0xFF);
    };
    put(static_cast<std::uint32_t>(4 * units.size()));
    for (const std::uint32_t unit : units) put(unit);
    return bytes + std::string("bc\0", 3);
}

TEST(Precompiled, ReplacesCharactersAndKeepsTheRest) {
    const auto map = Precompiled::parse(to_base64(charsmap_of_one_letter()));
    ASSERT_TRUE(map.has_value()) << map.error().message;
    EXPECT_EQ(map->apply("xa\u00e9aa"), "xbc\u00e9bcbc");
    // A cluster of less than six bytes becomes the replacement of its shortest known prefix.
    EXPECT_EQ(map->apply("a\u0301b"), "bcb");
}

TEST(Precompiled, DamageIsAnErrorOrFindsNothing) {
    const std::string whole = charsmap_of_one_letter();
    EXPECT_FALSE(Precompiled::parse("@@@@").has_value());
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{3}, std::size_t{4}, whole.size() / 2})
        EXPECT_FALSE(Precompiled::parse(to_base64(whole.substr(0, size))).has_value()) << size;
    for (std::size_t at = 4; at < whole.size(); ++at) {
        for (const int flip : {0x01, 0x80, 0xFF}) {
            std::string damaged = whole;
            damaged[at] = static_cast<char>(damaged[at] ^ flip);
            const auto map = Precompiled::parse(to_base64(damaged));
            const std::string made = map ? map->apply("aaab") : "";
            EXPECT_LE(made.size(), 4 * whole.size());
        }
    }
}

TEST(SameIds, CountsTheIdsThatStandForAnotherText) {
    const auto compared = [](const Json& file) {
        const Tokenizer own = Tokenizer::parse(small_file().dump()).value();
        return compare_ids(own, Tokenizer::parse(file.dump()).value());
    };
    Json file = small_file();
    EXPECT_EQ(compared(file).differ, 0U);
    EXPECT_EQ(compared(file).looked_at, 8U);
    // With an additional token, it is still the same vocabulary.
    file["added_tokens"].push_back(file["added_tokens"][0]);
    file["added_tokens"][1].update({{"id", 8}, {"content", "<e>"}});
    EXPECT_EQ(compared(file).looked_at, 8U);
    EXPECT_TRUE(compared(file).of_one_vocabulary());
    std::swap(file["model"]["vocab"]["a"], file["model"]["vocab"]["b"]);
    EXPECT_EQ(compared(file).differ, 2U);
    EXPECT_FALSE(compared(file).of_one_vocabulary());
    EXPECT_EQ(compare_ids(Tokenizer::bytes(), Tokenizer::bytes()).looked_at, 256U);
    EXPECT_EQ(compare_ids(Tokenizer::bytes(), Tokenizer::bytes()).differ, 0U);
}

TEST(IdsEnd, IsTheTokenizersVocabularyWithoutLoadingIt) {
    Json unigram = small_file();
    unigram["model"] = {{"type", "Unigram"},
                        {"unk_id", 0},
                        {"vocab", Json::parse(R"([["<unk>", 0.0], ["a\"]}", -1.5], ["b", -2]])")}};
    Json added = small_file();
    added["added_tokens"][0]["id"] = 11;
    for (const Json& file : {small_file(), large_file(), unigram, added}) {
        for (const std::string& text : {file.dump(), file.dump(2)})
            EXPECT_EQ(ids_end(text).value(), Tokenizer::parse(text).value().vocab_size()) << text;
    }
    EXPECT_EQ(ids_end(added.dump()).value(), 12U);
    const std::string whole = large_file().dump();
    for (std::size_t size = 0; size < whole.size(); ++size)
        EXPECT_FALSE(ids_end(std::string_view(whole).substr(0, size))) << size;
    for (const char* text :
         {"[]", "{\"model\":}", "{\"model\": {\"vocab\": 3}}", "{} {}", "{\"a\": ]"})
        EXPECT_FALSE(ids_end(text)) << text;
}

}  // namespace
}  // namespace roll::tokenizer
