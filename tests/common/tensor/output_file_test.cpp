#include "common/tensor/output_file.hpp"

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/files.hpp"

namespace roll::tensor {
namespace {

constexpr std::size_t kPage = 4096;

// Returns the number of the file's pages that are in the page cache.
std::size_t cached_pages(const std::filesystem::path& path) {
    const std::size_t size = std::filesystem::file_size(path);
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    std::vector<unsigned char> pages((size + kPage - 1) / kPage);
    EXPECT_EQ(::mincore(memory, size, pages.data()), 0);
    ::munmap(memory, size);
    ::close(fd);
    std::size_t cached = 0;
    for (const unsigned char page : pages) cached += page & 1U;
    return cached;
}

bool bypasses(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
    if (fd >= 0) ::close(fd);
    return fd >= 0;
}

TEST(OutputFile, WritesAlignedBytesWithoutThePageCacheAndTheRestThroughIt) {
    const auto path =
        std::filesystem::temp_directory_path() / ("roll-output-file-" + std::to_string(::getpid()));
    constexpr std::size_t kSize = 64 * kPage + 10;
    const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(kPage, 65 * kPage),
                                                             &std::free);
    const std::span bytes(static_cast<std::byte*>(memory.get()), kSize);
    for (std::size_t i = 0; i < kSize; ++i) bytes[i] = static_cast<std::byte>(i * i / 7);
    auto file = OutputFile::create(path);
    ASSERT_TRUE(file) << file.error().message;
    file->bypass_cache();
    ASSERT_TRUE(file->write_at(0, bytes.first(32 * kPage)));
    ASSERT_TRUE(file->write_at(32 * kPage, bytes.subspan(32 * kPage, 32 * kPage)));
    ASSERT_TRUE(file->write_at(64 * kPage, bytes.subspan(64 * kPage)));
    ASSERT_TRUE(file->finish());
    EXPECT_EQ(cached_pages(path), bypasses(path) ? 1U : 65U);
    const auto text = read_file(path);
    std::filesystem::remove(path);
    EXPECT_EQ(*text, std::string(reinterpret_cast<const char*>(bytes.data()), kSize));
}

}  // namespace
}  // namespace roll::tensor
