#include "common/tensor/safetensors.hpp"

#include <cstring>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/tensor/output_file.hpp"

namespace roll::tensor {
namespace {

std::string file_of(std::string header, std::size_t data_bytes) {
    const std::uint64_t length = header.size();
    std::string file(reinterpret_cast<const char*>(&length), 8);
    return file + header + std::string(data_bytes, '\1');
}

Result<SafetensorsHeader> parse(const std::string& file) {
    return parse_safetensors(as_bytes(file));
}

std::string problem_of(const std::string& file) {
    const auto header = parse(file);
    return header ? "" : header.error().message;
}

std::filesystem::path temporary_file(const std::string& name) {
    return std::filesystem::temp_directory_path() /
           (name + "-" + std::to_string(::getpid()) + ".safetensors");
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
    const auto header = parse(file_of(
        R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]},)"
        R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}  )",
        10));
    ASSERT_TRUE(header) << header.error().message;
    EXPECT_EQ(header->metadata.at("format"), "pt");
    ASSERT_EQ(header->entries.size(), 2U);
    EXPECT_EQ(header->entries[0].info, (TensorInfo{"a", DType::F32, {2, 1}}));
    EXPECT_EQ(header->entries[1].end, header->file_size);
}

TEST(Safetensors, RefusesEveryHeaderThatDoesNotDescribeItsFile) {
    const std::string a = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
    const std::string next = R"({"dtype":"F32","shape":[2],"data_offsets":)";
    EXPECT_EQ(problem_of(file_of(a + "}", 8)), "");
    const std::pair<std::string, std::size_t> refused[] = {
        {a + "}", 9},                              // a byte too many
        {a + "}", 7},                              // cut off
        {" " + a + "}", 8},                        // does not start with {
        {a, 8},                                    // not JSON
        {"[]", 0},                                 // not an object
        {a + ",\"a\":" + next + "[8,16]}}", 16},   // the same name twice
        {a + ",\"b\":" + next + "[4,12]}}", 12},   // overlap
        {a + ",\"b\":" + next + "[12,20]}}", 20},  // a gap
        {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8},
        {R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8},
        {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8},
        {R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,0]}})", 0},
        {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0},
        {R"({"__metadata__":{"a":1}})", 0},
    };
    for (const auto& [header, data] : refused) EXPECT_NE(problem_of(file_of(header, data)), "");
    EXPECT_NE(problem_of("1234567"), "");
    std::string huge = file_of(a + "}", 8);
    huge[7] = '\x7f';
    EXPECT_NE(problem_of(huge), "");
}

TEST(Safetensors, NeverCrashesOnAMutatedFile) {
    const std::string good =
        file_of(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],)"
                R"("data_offsets":[0,8]},"b":{"dtype":"U8","shape":[0,3],"data_offsets":[8,8]}})",
                8);
    std::uint64_t state = 1;
    for (int i = 0; i < 20000; ++i) {
        std::string bad = good;
        for (int k = 0; k < 1 + i % 3; ++k) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            bad[(state >> 33U) % bad.size()] = static_cast<char>(state >> 20U);
        }
        if (i % 7 == 0) bad.resize((state >> 40U) % bad.size());
        const auto header = parse(bad);
        if (!header) continue;
        EXPECT_EQ(header->file_size, static_cast<std::int64_t>(bad.size()));
    }
}

TEST(Safetensors, WritesWidestTypesFirstThenByName) {
    const auto layout = layout_safetensors(
        {{"b", DType::BF16, {1}}, {"c", DType::F32, {1}}, {"a", DType::BF16, {2}}},
        {{"format", "pt"}});
    ASSERT_TRUE(layout);
    EXPECT_EQ(layout->prefix.size() % 8, 0U);
    const std::string start = R"({"__metadata__":{"format":"pt"},)"
                              R"("c":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{)";
    EXPECT_EQ(layout->prefix.substr(8, start.size()), start);
    EXPECT_FALSE(layout_safetensors({{"a", DType::U8, {1}}, {"a", DType::F32, {1}}}, {}));
}

TEST(Safetensors, ReadsBackWhatItWrote) {
    const auto path = temporary_file("roundtrip");
    const std::string bytes = "abcdefgh";
    ASSERT_TRUE(write_safetensors(path,
                                  {{{"x", DType::U8, {4}}, as_bytes(bytes).first(4)},
                                   {{"y", DType::F64, {1}}, as_bytes(bytes)}},
                                  {{"format", "pt"}}));
    const auto file = SafetensorsFile::open(path);
    std::filesystem::remove(path);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_NE(file->find("x"), nullptr);
    EXPECT_EQ(std::memcmp(file->find("x")->bytes.data(), bytes.data(), 4), 0);
    EXPECT_EQ(std::memcmp(file->find("y")->bytes.data(), bytes.data(), 8), 0);
    EXPECT_EQ(file->find("z"), nullptr);
}

}  // namespace
}  // namespace roll::tensor
