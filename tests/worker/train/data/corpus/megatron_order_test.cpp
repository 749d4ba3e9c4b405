// Compares Megatron's order of samples, and the .idx files that Roll writes, with hashes that
// tests/oracle/megatron_order.py computed with Megatron-core.
#include <filesystem>
#include <numeric>
#include <random>
#include <regex>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "common/json.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/train/data/corpus/numpy_shuffle.hpp"
#include "worker/train/data/corpus/sampler.hpp"
#include "worker/train/data/corpus/token_writer.hpp"

namespace roll::data {
namespace {

namespace fs = std::filesystem;

// The hash of the table: h = h * prime + number.
struct Hash {
    void add(std::int64_t number) {
        value = value * 1099511628211ULL + static_cast<std::uint64_t>(number);
    }
    std::uint64_t value = 0;
};

std::string hash_of(const auto& numbers) {
    Hash hash;
    for (const auto number : numbers) hash.add(number);
    return std::to_string(hash.value);
}

// Writes the token file of a case, from the same random numbers as megatron_order.py.
fs::path write_tokens(const fs::path& base, const Json& file, const std::string& type) {
    std::uint64_t state = file["seed"];
    const auto next = [&state] {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        return state >> 33U;
    };
    Encoded encoded;
    for (int i = 0; i < file["documents"].get<int>(); ++i) {
        const std::uint64_t length = next() % (file["longest"].get<std::uint64_t>() + 1);
        for (std::uint64_t j = 0; j < length; ++j)
            encoded.ids.push_back(static_cast<std::uint32_t>(next() % 60000));
        encoded.document_ends.push_back(encoded.ids.size());
    }
    const TokenType of = type == "uint16" ? TokenType::Uint16 : TokenType::Int32;
    TokenWriter writer = TokenWriter::open(base, of).value();
    EXPECT_TRUE(writer.append(encoded));
    EXPECT_TRUE(writer.finish());
    const std::string index = read_file(fs::path(base.string() + ".idx")).value();
    Hash hash;
    for (const char byte : index) hash.add(static_cast<unsigned char>(byte));
    EXPECT_EQ(std::to_string(hash.value), file["index"].get<std::string>());
    return base.string() + ".bin";
}

std::array<double, 3> split_of(const std::string& text) {
    std::array<double, 3> shares{};
    const std::regex number("[.0-9]+");
    std::size_t i = 0;
    for (std::sregex_iterator at(text.begin(), text.end(), number), end; at != end; ++at)
        shares.at(i++) = std::stod(at->str());
    return shares;
}

Json table() {
    const fs::path path = fs::path(TEST_FOLDER) / "megatron_order.json";
    return parse_json(read_file(path).value()).value();
}

// A case of the table with its corpus.
struct Case {
    explicit Case(const Json& json) : given(json) {
        std::vector<NamedTokens> files;
        for (const Json& file : given["files"]) {
            const fs::path base = folder / std::to_string(files.size());
            const fs::path bin = write_tokens(base, file, given["dtype"]);
            files.push_back({bin, TokenFile::open_indexed(bin).value()});
        }
        corpus = Corpus::split(std::move(files), split_of(given["split"])).value();
        rules = {.rows = {.seq_length = given["seq_length"]},
                 .seed = given["seed"],
                 .megatron = given["samples"].get<std::uint64_t>()};
        if (!given["weights"].is_null()) rules.phases = {{0, given["weights"]}};
    }

    Json given;
    TemporaryFolder folder;
    Corpus corpus;
    SampleRules rules;
};

TEST(MegatronOrder, DrawsTheSamplesOfGptDatasetAndBlendedDataset) {
    for (const Json& json : table()) {
        const Case one(json);
        const Sampler sampler = Sampler::make(one.corpus, one.rules).value();
        Hash hash;
        for (std::uint64_t i = 0; i < *one.rules.megatron; ++i) {
            const Window window = sampler.sample(i);
            ASSERT_EQ(window.tokens().size(),
                      static_cast<std::size_t>(one.rules.rows.seq_length) + 1);
            for (std::size_t j = 0; j < window.tokens().size(); ++j) hash.add(window.tokens()[j]);
        }
        EXPECT_EQ(std::to_string(hash.value), json["hash"].get<std::string>()) << json.dump();
    }
}

TEST(MegatronOrder, ASampleDoesNotDependOnThoseBefore) {
    const Json all = table();
    for (const std::size_t i : {0U, 2U, 3U}) {
        const Case one(all[i]);
        const Sampler walker = Sampler::make(one.corpus, one.rules).value();
        const std::uint64_t late = *one.rules.megatron - 1;
        for (std::uint64_t sample = 0; sample < late; ++sample) walker.sample(sample);
        const Sampler resumed = Sampler::make(one.corpus, one.rules).value();
        EXPECT_EQ(walker.sample(late).gathered.tokens, resumed.sample(late).gathered.tokens);
        EXPECT_EQ(walker.sample(3).gathered.tokens, resumed.sample(3).gathered.tokens);
    }
}

TEST(MegatronOrder, TheIndexesAreThoseOfGptDataset) {
    int compared = 0;
    for (const Json& json : table()) {
        if (!json.contains("document_index")) continue;
        const Case one(json);
        const CorpusFile& file = one.corpus.files().front();
        const auto index =
            MegatronIndex::make(file.file, 0, file.train_sequences,
                                {one.rules.rows.seq_length,
                                 static_cast<std::uint32_t>(one.rules.seed), one.rules.megatron})
                .value();
        EXPECT_EQ(hash_of(index.documents()), json["document_index"].get<std::string>());
        EXPECT_EQ(hash_of(index.shuffle()), json["shuffle_index"].get<std::string>());
        EXPECT_EQ(index.size() + 1, json["rows"].get<std::uint64_t>());
        ++compared;
    }
    EXPECT_EQ(compared, 8);
}

TEST(MegatronOrder, DrawsTheWordsOfMt19937) {
    for (const std::uint32_t seed : {0U, 1234U, 4294967295U}) {
        std::mt19937 known(seed);
        MersenneTwister random(seed);
        for (int i = 0; i < 2000; ++i) ASSERT_EQ(random(), known()) << seed << ", word " << i;
    }
}

TEST(MegatronOrder, ShufflesLikeNumpy) {
    MersenneTwister random(1234);  // reference/training.md: two shuffles of 0..9 from one state
    std::vector<std::int32_t> first(10);
    std::vector<std::uint32_t> second(10);
    std::iota(first.begin(), first.end(), 0);
    std::iota(second.begin(), second.end(), 0);
    numpy_shuffle(random, std::span(first));
    numpy_shuffle(random, std::span(second));
    EXPECT_EQ(first, (std::vector<std::int32_t>{7, 2, 9, 1, 0, 8, 4, 5, 6, 3}));
    EXPECT_EQ(second, (std::vector<std::uint32_t>{7, 3, 5, 1, 4, 8, 0, 2, 6, 9}));
}

TEST(MegatronOrder, ShufflesInTwoThreadsAsInOne) {
    constexpr std::size_t kSize = 300'001;
    std::vector<std::int32_t> expected(2 * kSize), together(2 * kSize);
    std::vector<std::uint32_t> samples(kSize), later(kSize);
    for (auto* const list : {&expected, &together}) std::iota(list->begin(), list->end(), 0);
    for (auto* const list : {&samples, &later}) std::iota(list->begin(), list->end(), 0U);
    MersenneTwister one(5), other(5);
    numpy_shuffle(one, std::span(expected).first(kSize - 1));
    numpy_shuffle(one, std::span(expected).subspan(kSize - 1));
    numpy_shuffle(one, std::span(samples));
    const std::vector<std::span<std::int32_t>> parts = {
        std::span(together).first(kSize - 1), {}, std::span(together).subspan(kSize - 1)};
    numpy_shuffle_beside(other, parts, [&] { numpy_shuffle(other, std::span(later)); });
    EXPECT_EQ(expected, together);
    EXPECT_EQ(samples, later);
    EXPECT_EQ(one(), other());
}

TEST(MegatronOrder, RefusesWhatMegatronCannotDraw) {
    Case one(table()[3]);
    one.rules.phases.clear();
    one.rules.megatron = 1U << 30U;
    const auto many = Sampler::make(one.corpus, one.rules);
    ASSERT_FALSE(many);
    EXPECT_NE(many.error().message.find("gives one epoch of"), std::string::npos);
    one.rules.rows.seq_length = 1 << 20;
    const auto longer = Sampler::make(one.corpus, one.rules);
    ASSERT_FALSE(longer);
    EXPECT_NE(longer.error().message.find("a sample needs 1048577"), std::string::npos)
        << longer.error().message;
}

}  // namespace
}  // namespace roll::data
