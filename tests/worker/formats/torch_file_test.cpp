#include "worker/formats/torch_file.hpp"

#include <cstring>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace roll::formats {
namespace {

using tensor::DType;

std::filesystem::path temporary_file(const std::string& name) {
    return std::filesystem::temp_directory_path() /
           (name + "-" + std::to_string(::getpid()) + ".pt");
}

// Parses a pickle from a literal, including its NUL bytes.
template <std::size_t n>
Result<Pickle> parse(const char (&text)[n]) {
    return Pickle::parse(tensor::as_bytes({text, n - 1}));
}

void write_sample(const std::filesystem::path& path) {
    const std::vector<tensor::TensorInfo> tensors{
        {"w", DType::F32, {2, 2}}, {"scalar", DType::BF16, {}}, {"none", DType::F16, {0, 3}}};
    auto writer = TorchFileWriter::create(path, {{"model", tensors}}).value();
    const auto bytes = tensor::as_bytes("abcdefghijklmnop");
    ASSERT_TRUE(writer.append(0, bytes));
    ASSERT_TRUE(writer.append(1, bytes.first(2)));
    ASSERT_TRUE(writer.finish());
}

TEST(Pickle, ReadsPlainData) {
    // The pickle is {"a": (1, -2, 1.5, True, None, [b"x"])} in protocol 4.
    const Pickle pickle = parse(
                              "\x80\x04}\x8c\x01"
                              "a(K\x01J\xfe\xff\xff\xffG\x3f\xf8\0\0\0\0\0\0\x88N]C\x01xats.")
                              .value();
    const PickleId* found = pickle.find(pickle.root(), "a");
    ASSERT_NE(found, nullptr);
    const PickleNode& tuple = pickle.at(*found);
    ASSERT_EQ(tuple.items.size(), 6U);
    EXPECT_EQ(pickle.at(tuple.items[1]).integer, -2);
    EXPECT_EQ(pickle.at(tuple.items[2]).number, 1.5);
    EXPECT_EQ(pickle.at(pickle.at(tuple.items[5]).items[0]).text, "x");
}

TEST(Pickle, NeverCallsAnythingAndSaysWhatWouldBeCalled) {
    const Pickle pickle = parse("cos\nsystem\n(X\x02\0\0\0lstR.").value();
    const PickleNode* arguments = pickle.arguments_of(pickle.root(), "os system");
    ASSERT_NE(arguments, nullptr);
    EXPECT_EQ(pickle.at(arguments->items[0]).text, "ls");
}

TEST(Pickle, ReadsAnOrderedDictFilledInBatches) {
    const Pickle pickle = parse(
                              "ccollections\nOrderedDict\n)R(X\x01\0\0\0aK\x07u(X\x01\0\0\0bK\x07u"
                              "}X\x01\0\0\0mNsb.")
                              .value();
    const auto* entries = pickle.entries_of(pickle.root());
    ASSERT_NE(entries, nullptr);
    EXPECT_EQ(entries->size(), 4U);  // without _metadata, which is in the object's state
}

TEST(Pickle, RefusesWhatIsBroken) {
    for (const std::string_view bad :
         {"", "K", "K\x01", ".", "u.", "(u.", "}K\x01s.", "}(K\x01u.", "h\x05.", "K\x01K\x02s.",
          "\x93.", "t.", "X\xff\xff\xff\xff.", "i.", "b.", "Q."})
        EXPECT_FALSE(Pickle::parse(tensor::as_bytes(bad))) << bad;
}

TEST(Pickle, LimitsItsSizeAndNestsWithoutRecursion) {
    const std::byte one{};  // the size is refused before any other byte is read
    const auto large = Pickle::parse({&one, kPickleBytesMax + 1});
    ASSERT_FALSE(large);
    EXPECT_NE(large.error().message.find("bytes"), std::string::npos) << large.error().message;
    const std::string deep = std::string(100'000, '(') + std::string(100'000, 'l') + ".";
    EXPECT_TRUE(Pickle::parse(tensor::as_bytes(deep)));
}

TEST(Pickle, LimitsHowManyValuesItHoldsAndMemoizes) {
    const auto parsed = [](const std::string& text) {
        return Pickle::parse(tensor::as_bytes(text), 1000);
    };
    EXPECT_TRUE(parsed("(" + std::string(999, '}') + "t."));
    const auto values = parsed("(" + std::string(1001, '}') + "t.");
    ASSERT_FALSE(values);
    EXPECT_NE(values.error().message.find("has more than 1000 values"), std::string::npos);
    std::string memoized = "N";
    for (int i = 0; i <= 1000; ++i) {  // adds a LONG_BINPUT
        memoized += 'r';
        memoized.append(reinterpret_cast<const char*>(&i), sizeof i);
    }
    const auto memo = parsed(memoized + ".");
    ASSERT_FALSE(memo);
    EXPECT_NE(memo.error().message.find("memoizes more than 1000 values"), std::string::npos);
}

TEST(Pickle, LimitsTheMemoryThatItTakesByItsSize) {
    const auto parsed = [](const std::string& text) {
        return Pickle::parse(tensor::as_bytes(text));
    };
    constexpr std::size_t kSize = 1U << 20U;
    for (const char* hostile : {"]", "}", ")\x85", "N\x85"}) {
        std::string text = "(";
        while (text.size() < kSize) text += hostile;
        const auto refused = parsed(text + "t.");
        ASSERT_FALSE(refused) << hostile;
        EXPECT_NE(refused.error().message.find("memory"), std::string::npos);
    }
    std::string sparse = "N";
    for (std::uint32_t i = 0; i < 100'000; ++i) {  // adds a LONG_BINPUT
        const std::uint32_t index = 2 * i + 1;
        sparse += 'r';
        sparse.append(reinterpret_cast<const char*>(&index), sizeof index);
    }
    EXPECT_TRUE(parsed(sparse + "."));
    for (const char* plain : {"N", "\x88", "K\x07", "J\x01\x02\x03\x04"}) {
        std::string text = "(";
        while (text.size() < kSize) text += plain;
        EXPECT_TRUE(parsed(text + "l.")) << plain;
    }
}

TEST(TorchFile, ReadsBackWhatItWrote) {
    const auto path = temporary_file("torch");
    write_sample(path);
    const auto file = TorchFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    const PickleId* model = file->pickle().find(file->pickle().root(), "model");
    ASSERT_NE(model, nullptr);
    const StateDict dict = file->state_dict(*model).value();
    std::filesystem::remove(path);
    ASSERT_EQ(dict.tensors.size(), 3U);
    EXPECT_EQ(dict.tensors[0].info, (tensor::TensorInfo{"w", DType::F32, {2, 2}}));
    EXPECT_EQ(std::memcmp(dict.tensors[0].first, "abcdefghijklmnop", 16), 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(dict.tensors[0].first) % 64, 0U);
    EXPECT_EQ(dict.tensors[1].info.shape, tensor::Shape{});
}

// Each mutated file is refused, or its tensors are inside the file.
TEST(TorchFile, NeverCrashesOnAMutatedFile) {
    const auto path = temporary_file("mutated");
    write_sample(path);
    std::string good(std::istreambuf_iterator<char>(std::ifstream(path).rdbuf()), {});
    std::uint64_t state = 7;
    const auto random = [&] {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        return state >> 33U;
    };
    for (int i = 0; i < 3000; ++i) {
        std::string bad = good;
        for (int k = 0; k < 1 + i % 4; ++k)
            bad[random() % bad.size()] = static_cast<char>(random());
        if (i % 9 == 0) bad.resize(random() % bad.size());
        std::ofstream(path, std::ios::trunc) << bad;
        const auto file = TorchFile::open(path);
        if (!file) continue;
        const PickleId* model = file->pickle().find(file->pickle().root(), "model");
        if (model == nullptr) continue;
        if (const auto dict = file->state_dict(*model)) {
            for (const auto& view : dict->tensors) {
                if (tensor::element_count(view.info.shape).value() > 0) {
                    EXPECT_GE(std::to_integer<int>(*view.first), 0);
                }
            }
        }
    }
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace roll::formats
