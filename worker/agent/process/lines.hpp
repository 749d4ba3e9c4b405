// Reads lines from a pipe or socket. Drops lines longer than the limit.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace roll::agent {

class LineReader {
  public:
    explicit LineReader(std::size_t bytes_max) : bytes_max_(bytes_max) {}

    // Reads once from `fd`. Returns false at the end of the stream or on an error.
    bool fill(int fd);
    void feed(std::string_view bytes) { buffer_.append(bytes); }
    std::optional<std::string> next();

  private:
    std::size_t bytes_max_;
    std::string buffer_{};
    std::size_t searched_ = 0;
    bool skipping_ = false;
};

}  // namespace roll::agent
