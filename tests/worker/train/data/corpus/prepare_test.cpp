#include "worker/train/data/corpus/prepare.hpp"

#include <csignal>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/json.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/tokenizer/bpe.hpp"
#include "worker/train/data/corpus/token_file.hpp"
#include "worker/train/data/corpus/token_writer.hpp"

namespace roll::data {
namespace {

namespace fs = std::filesystem;
using tokenizer::Tokenizer;

class Prepare : public testing::Test {
  protected:
    fs::path put(const std::string& name, const std::string& text) {
        std::ofstream(root_ / name, std::ios::binary) << text;
        return root_ / name;
    }

    PrepareOptions options(const std::string& folder = "tokens") {
        PrepareOptions options;
        options.directory = root_ / folder;
        options.rules.slice_bytes = 600;
        options.threads = 2;
        options.sync_every = std::chrono::seconds(0);
        return options;
    }

    TemporaryFolder root_;
};

// Returns a tokenizer model with a small vocabulary of bytes and pairs of them. `byte_level`
// selects how text is split.
Json model_of(const std::vector<std::pair<std::string, std::string>>& merges, bool byte_level) {
    Json vocab = Json::object();
    for (const char* token : {"<unk>", "<s>", "</s>"}) vocab[token] = vocab.size();
    for (int byte = 0; byte < 256; ++byte) {
        if (byte_level) {
            vocab[tokenizer::visible_bytes()[byte]] = vocab.size();
        } else {
            char name[8];
            std::snprintf(name, sizeof name, "<0x%02X>", byte);
            vocab[name] = vocab.size();
        }
    }
    if (!byte_level) {
        vocab["▁"] = vocab.size();
        for (char c = 'a'; c <= 'z'; ++c) vocab[std::string(1, c)] = vocab.size();
    }
    Json list = Json::array();
    for (const auto& [left, right] : merges) {
        vocab[left + right] = vocab.size();
        list.push_back({left, right});
    }
    return {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}, {"byte_fallback", !byte_level}};
}

Tokenizer make(const Json& normalizer, const Json& pre_tokenizer, const Json& model) {
    const Json post{
        {"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair", Json::array()},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}};
    const Json whole{{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", Json::array()},
                     {"normalizer", normalizer},
                     {"pre_tokenizer", pre_tokenizer},
                     {"post_processor", post},
                     {"decoder", nullptr},
                     {"model", model}};
    auto result = Tokenizer::parse(whole.dump());
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return *std::move(result);
}

Tokenizer byte_level(bool prefix) {
    return make(nullptr,
                {{"type", "ByteLevel"},
                 {"add_prefix_space", prefix},
                 {"trim_offsets", true},
                 {"use_regex", true}},
                model_of({{"t", "h"}, {"th", "e"}, {"Ġ", "the"}, {"Ċ", "Ċ"}, {"a", "n"}}, true));
}

Tokenizer prepending() {
    const Json steps{{{"type", "Prepend"}, {"prepend", "▁"}},
                     {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}};
    return make({{"type", "Sequence"}, {"normalizers", steps}}, nullptr,
                model_of({{"t", "h"}, {"th", "e"}, {"▁", "the"}, {"a", "n"}, {"an", "d"}}, false));
}

std::string text_of(std::size_t size, unsigned seed) {
    const std::vector<std::string> words{"the",  "then", "an",    "and",  "Straße",  "中文字",
                                         "\n",   "\n\n", "  ",    "a\nb", "x\n the", "ther",
                                         "\xff", "\r\n", " \n\n", "42"};
    std::mt19937 random(seed);
    std::string text;
    while (text.size() < size) {
        text += words[random() % words.size()];
        if (random() % 4 != 0) text += ' ';
    }
    return text;
}

std::vector<std::uint32_t> ids_in(const fs::path& bin) {
    const TokenFile file = TokenFile::open_indexed(bin).value();
    std::vector<std::uint32_t> ids;
    for (std::size_t i = 0; i < file.tokens().size(); ++i)
        ids.push_back(static_cast<std::uint32_t>(file.tokens()[i]));
    return ids;
}

bool always(const PrepareProgress&) { return true; }

TEST_F(Prepare, SlicesOfATextGiveTheIdsOfTheWhole) {
    for (const Tokenizer& tokenizer : {byte_level(false), byte_level(true), prepending()}) {
        for (const unsigned seed : {1U, 2U, 3U}) {
            const std::string text = text_of(20000, seed);
            const fs::path source = put("text.txt", text);
            PrepareOptions how = options("tokens" + std::to_string(seed));
            how.rules.end_token = 2;
            const auto prepared = prepare(source, tokenizer, how, always).value().value();
            std::vector<std::uint32_t> expected = tokenizer.encode(text);
            EXPECT_EQ(expected.front(), 1U);
            expected.push_back(2);
            EXPECT_TRUE(ids_in(prepared.bin) == expected) << seed;
            const TokenFile file = TokenFile::open_indexed(prepared.bin).value();
            EXPECT_EQ(file.documents(), 1U);
            fs::remove_all(how.directory);
        }
    }
}

TEST_F(Prepare, LinesBecomeDocumentsInMegatronsFormat) {
    const Tokenizer bytes = Tokenizer::bytes();
    const fs::path source = put("a.jsonl",
                                "{\"body\": \"ab\"}\n\n"
                                "{\"body\": \"\"}\r\n{\"x\": 1, \"body\": \"c\\u0001\"}");
    PrepareOptions how = options();
    how.rules.field = "body";
    how.rules.end_token = 1;
    const auto prepared = prepare(source, bytes, how, always).value().value();
    EXPECT_EQ(ids_in(prepared.bin), (std::vector<std::uint32_t>{'a', 'b', 1, 'c', 1}));
    const std::string index = read_file(index_of(prepared.bin)).value();
    const std::string expected(
        "MMIDIDX\0\0"
        "\1\0\0\0\0\0\0\0"
        "\x08"
        "\2\0\0\0\0\0\0\0"
        "\3\0\0\0\0\0\0\0"
        "\3\0\0\0\2\0\0\0"
        "\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0"
        "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0",
        9 + 8 + 1 + 16 + 8 + 16 + 24);
    EXPECT_TRUE(index == expected);
    const TokenFile file = TokenFile::open_indexed(prepared.bin).value();
    EXPECT_EQ(file.starts_within(0, 5), std::vector<std::size_t>{3});
    EXPECT_EQ(file.starts_within(3, 5), std::vector<std::size_t>{});
    EXPECT_EQ(file.starts_within(1, 3), std::vector<std::size_t>{});
    for (const auto& entry : fs::directory_iterator(how.directory)) {
        const std::string left = entry.path().extension();
        EXPECT_TRUE(left == ".bin" || left == ".idx" || left == ".made" || left == ".lock") << left;
    }
}

TEST_F(Prepare, BadLinesAreNamedOrLeftOutAndCounted) {
    const Tokenizer bytes = Tokenizer::bytes();
    const fs::path source =
        put("bad.jsonl",
            "{\"text\": \"a\"}\n{\"text\": 3}\nnot json\n[1]\n{\"other\": \"x\"}\n"
            "{\"text\": \"\xff\"}\n{\"text\": \"b\"}\n");
    PrepareOptions how = options();
    const auto refused = prepare(source, bytes, how, always);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
    EXPECT_EQ(refused.error().message,
              "data: " + source.string() +
                  ", line 2: its field \"text\" is not a string; correct this line, or set "
                  "`data.on_bad_line: skip` to leave out such lines");
    how.skip_bad_lines = true;
    how.rules.slice_bytes = 1;
    const auto prepared = prepare(source, bytes, how, always).value().value();
    EXPECT_EQ(prepared.bad_lines, 5U);
    EXPECT_EQ(ids_in(prepared.bin), (std::vector<std::uint32_t>{'a', 'b'}));
    const std::string list = read_file(fs::path(prepared.bin).replace_extension(".bad")).value();
    EXPECT_EQ(list.substr(0, list.find("\n3\t")),
              "2\tits field \"text\" is not a string\t{\"text\": 3}");
    EXPECT_NE(list.find("\n4\tis not a JSON object\t[1]\n5\thas no field \"text\"\t{\"other\": "
                        "\"x\"}\n6\t"),
              std::string::npos)
        << list;
    EXPECT_TRUE(list.ends_with("\t{\"text\": \"\xff\"}\n")) << list;
}

std::string json_lines(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
        text += i % 17 == 5 ? "broken\n"
                            : Json{{"text", "line " + std::to_string(i * i)}}.dump() + "\n";
    }
    return text;
}

void expect_same_files(const fs::path& a, const fs::path& b) {
    for (const char* suffix : {".bin", ".idx", ".bad"}) {
        const auto one = read_file(fs::path(a).replace_extension(suffix));
        const auto two = read_file(fs::path(b).replace_extension(suffix));
        EXPECT_EQ(one.has_value(), two.has_value()) << suffix;
        EXPECT_TRUE(one.value_or("") == two.value_or("")) << suffix;
    }
}

// Runs `work` in a child process. Returns the signal that killed it, or 0.
int in_child(const std::function<void()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
        work();
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_F(Prepare, KilledAtAnyPointItComesOutTheSame) {
    for (const char* name : {"text.txt", "lines.jsonl"}) {
        const fs::path source = put(name, name[0] == 't' ? text_of(30000, 4) : json_lines(900));
        const Tokenizer tokenizer = byte_level(false);
        PrepareOptions whole = options("whole"), killed = options("killed");
        whole.skip_bad_lines = killed.skip_bad_lines = true;
        whole.threads = 1;
        const auto expected = prepare(source, tokenizer, whole, always).value().value();
        int kills = 0;
        for (int after = 1;; ++after) {  // kill the process a little later in each round
            int calls = 0;
            const int signal = in_child([&] {
                (void)prepare(source, tokenizer, killed, [&](const PrepareProgress&) {
                    if (++calls > after) ::raise(SIGKILL);
                    return true;
                });
            });
            if (signal == 0) break;
            ASSERT_EQ(signal, SIGKILL);
            ++kills;
        }
        EXPECT_GE(kills, 3);
        const auto got = prepare(source, tokenizer, killed, always).value().value();
        expect_same_files(expected.bin, got.bin);
    }
}

TEST_F(Prepare, KilledAtAnyInstantItComesOutTheSame) {
    const fs::path source = put("text.txt", text_of(60000, 8));
    const Tokenizer tokenizer = byte_level(false);
    const auto expected = prepare(source, tokenizer, options("whole"), always).value().value();
    for (int micros = 200; micros < 40000; micros += micros / 2) {
        const pid_t child = ::fork();
        if (child == 0) {
            (void)prepare(source, tokenizer, options("killed"), always);
            ::_exit(0);
        }
        std::this_thread::sleep_for(std::chrono::microseconds(micros));
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    }
    const auto got = prepare(source, tokenizer, options("killed"), always).value().value();
    expect_same_files(expected.bin, got.bin);
}

TEST_F(Prepare, StopsWhenToldAndGoesOn) {
    const fs::path source = put("text.txt", text_of(30000, 5));
    const Tokenizer tokenizer = byte_level(false);
    const auto expected = prepare(source, tokenizer, options("whole"), always).value().value();
    int calls = 0;
    EXPECT_FALSE(prepare(source, tokenizer, options("stopped"), [&](const PrepareProgress&) {
                     return ++calls < 5;
                 }).value());
    std::uint64_t first = 0;
    const auto got =
        prepare(source, tokenizer, options("stopped"), [&](const PrepareProgress& progress) {
            if (first == 0) first = progress.done;
            return true;
        });
    EXPECT_GT(first, 1000U) << "it began again at the start";
    expect_same_files(expected.bin, got.value().value().bin);
}

TEST_F(Prepare, PiecesThatDoNotFitEachOtherAreMadeAnew) {
    const fs::path source = put("text.txt", text_of(30000, 5));
    const Tokenizer tokenizer = byte_level(false);
    const auto expected = prepare(source, tokenizer, options("whole"), always).value().value();
    for (const char* damaged : {".bin", ".sequences", ".state"}) {
        int calls = 0;
        ASSERT_FALSE(prepare(source, tokenizer, options(damaged), [&](const PrepareProgress&) {
                         return ++calls < 5;
                     }).value());
        int cut = 0;
        for (const auto& file : fs::directory_iterator(root_ / damaged)) {
            if (file.path().extension() != damaged) continue;
            fs::resize_file(file.path(), 3);
            ++cut;
        }
        EXPECT_EQ(cut, 1) << damaged;
        const auto got = prepare(source, tokenizer, options(damaged), always);
        ASSERT_TRUE(got) << damaged << ": " << got.error().message;
        expect_same_files(expected.bin, got->value().bin);
    }
}

TEST_F(Prepare, ATextWhoseLastSliceHasNoTokensStillEnds) {
    TokenWriter writer = TokenWriter::open(root_ / "text", TokenType::Uint16).value();
    Encoded first, last;
    first.ids = {5, 6, 7};
    first.end = 10;
    last.end = 12;
    ASSERT_TRUE(writer.append(first));
    ASSERT_TRUE(writer.append(last));
    ASSERT_TRUE(writer.finish());
    const auto file = TokenFile::open_indexed(root_ / "text.bin");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->documents(), 1U);
    EXPECT_EQ(file->tokens().size(), 3U);
}

TEST_F(Prepare, ManyAtOnceMakeOneFile) {
    const fs::path source = put("lines.jsonl", json_lines(2000));
    const Tokenizer tokenizer = byte_level(false);
    PrepareOptions alone = options("alone"), together = options("together");
    alone.skip_bad_lines = together.skip_bad_lines = true;
    const auto expected = prepare(source, tokenizer, alone, always).value().value();
    std::vector<pid_t> children;
    for (int i = 0; i < 3; ++i) {
        children.push_back(::fork());
        if (children.back() == 0)
            ::_exit(prepare(source, tokenizer, together, always).value() ? 0 : 1);
    }
    for (const pid_t child : children) {
        int status = -1;
        ::waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
    }
    const auto got = prepare(source, tokenizer, together, always).value().value();
    expect_same_files(expected.bin, got.bin);
}

TEST_F(Prepare, WhoWaitsForAnotherTellsHowFarThatOneHasCome) {
    using namespace std::chrono_literals;
    const fs::path source = put("text.txt", text_of(30000, 5));
    const Tokenizer tokenizer = byte_level(false);
    std::jthread other([&] {
        (void)prepare(source, tokenizer, options(), [](const PrepareProgress&) {
            std::this_thread::sleep_for(40ms);
            return true;
        });
    });
    const auto has_state = [&] {
        std::error_code error;
        for (const auto& entry : fs::directory_iterator(root_ / "tokens", error))
            if (entry.path().extension() == ".state") return true;
        return false;
    };
    while (!has_state()) std::this_thread::sleep_for(1ms);
    std::set<std::uint64_t> told;
    const auto waited = prepare(source, tokenizer, options(), [&](const PrepareProgress& progress) {
        EXPECT_EQ(progress.size, fs::file_size(source));
        EXPECT_GE(progress.done, told.empty() ? 0 : *told.rbegin());
        told.insert(progress.done);
        return true;
    });
    EXPECT_GE(told.size(), 3U) << "of about a second, looked at four times";
    EXPECT_TRUE(waited.value());
}

TEST_F(Prepare, AnotherTextOrTokenizerIsAnotherFile) {
    const fs::path source = put("text.txt", "the one");
    PrepareOptions how = options();
    how.tokenizer = "a";
    const auto one = prepare(source, byte_level(false), how, always).value().value();
    how.tokenizer = "b";
    const auto two = prepare(source, byte_level(true), how, always).value().value();
    put("text.txt", "the other");
    const auto three = prepare(source, byte_level(true), how, always).value().value();
    EXPECT_NE(one.bin, two.bin);
    EXPECT_NE(two.bin, three.bin);
}

TEST_F(Prepare, ALongDocumentNeedsLittleMemory) {
    // Encodes 24 MB of text with a memory limit of 16 MiB above the current use.
    std::string line = text_of(4000, 6);
    {
        std::ofstream out(root_ / "long.txt", std::ios::binary);
        for (int i = 0; i < 6 << 10; ++i) out << line;
    }
    line.clear();
    PrepareOptions how = options();
    how.rules.slice_bytes = 1 << 17;
    how.threads = 1;
    how.sync_every = std::chrono::seconds(1);
    const Tokenizer bytes = byte_level(false);
    const int signal = in_child([&] {
        std::ifstream statm("/proc/self/statm");
        long pages = 0, data = 0;
        for (int field = 0; field < 6 && statm >> pages; ++field) data = pages;
        const rlim_t limit = static_cast<rlim_t>(data) * 4096 + (16 << 20);
        const rlimit both{limit, limit};
        ::setrlimit(RLIMIT_DATA, &both);
        if (!prepare(root_ / "long.txt", bytes, how, always)) ::raise(SIGUSR1);
    });
    EXPECT_EQ(signal, 0);
    EXPECT_GT(fs::file_size(root_ / "long.txt"), 23U << 20);
}

TEST_F(Prepare, DamagedTokenFilesAreRefusedByName) {
    const fs::path source = put("a.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"de\"}\n");
    const auto prepared = prepare(source, Tokenizer::bytes(), options(), always).value().value();
    const std::string index = read_file(index_of(prepared.bin)).value();
    const auto refused = [&](const std::string& changed, const std::string& why) {
        put("c.idx", changed);
        fs::copy_file(prepared.bin, root_ / "c.bin", fs::copy_options::overwrite_existing);
        const auto file = TokenFile::open_indexed(root_ / "c.bin");
        ASSERT_FALSE(file) << why;
        EXPECT_NE(file.error().message.find(why), std::string::npos) << file.error().message;
    };
    refused("", "is not the index");
    refused("MMIDIDX\1" + index.substr(8), "is not the index");
    refused(index.substr(0, index.size() - 25), "is too short");
    std::string other = index;
    other[9] = 2;
    refused(other, "has version 2");
    other = index;
    other[17] = 7;
    refused(other, "type code 7");
    other[17] = 4;
    refused(other, "bytes per token");
    other = index;
    other[25] = '\x7f';  // the header says 2^63 sequences
    refused(other, "is too short");
    EXPECT_FALSE(TokenFile::open_indexed(root_ / "none.bin"));
    std::mt19937 random(3);
    for (int i = 0; i < 2000; ++i) {  // random bytes are refused or read, without a crash
        std::string fuzzed = index;
        for (int j = 0; j < 3; ++j) fuzzed[random() % fuzzed.size()] = static_cast<char>(random());
        put("c.idx", fuzzed);
        if (const auto file = TokenFile::open_indexed(root_ / "c.bin")) {
            for (const std::size_t start : file->starts_within(0, file->tokens().size()))
                EXPECT_LT(start, file->tokens().size());
        }
    }
}

}  // namespace
}  // namespace roll::data
