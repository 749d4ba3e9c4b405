// A file written piece by piece at known places, in any order. Callers stage and rename.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include <tl/expected.hpp>

#include "common/error.hpp"

namespace roll::tensor {

inline std::span<const std::byte> as_bytes(std::string_view text) {
    return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

class EarlierFile;

// Moves, does not copy. Closed without a sync if finish() was not called. A full disk is Refused.
class OutputFile {
  public:
    // Creates or truncates. If everything that is written turns out to be what the file `earlier`
    // has, byte for byte, then nothing is written, and finish() makes the path another link to it.
    static Result<OutputFile> create(const std::filesystem::path& path,
                                     const std::filesystem::path& earlier = {});
    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&& other) noexcept;
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    ~OutputFile();

    // From any thread.
    Result<void> write_at(std::int64_t offset, std::span<const std::byte> bytes);
    Result<void> finish();  // fsync and close

  private:
    OutputFile(int fd, std::filesystem::path path);
    tl::unexpected<Error> fail_errno(const char* what) const;
    Result<void> open();
    Result<void> write_out(std::int64_t offset, std::span<const std::byte> bytes);
    int fd_ = -1;
    std::filesystem::path path_;
    std::unique_ptr<EarlierFile> earlier_;  // as long as nothing differs
};

}  // namespace roll::tensor
