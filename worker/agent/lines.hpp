// Lines out of a pipe or socket. A line longer than the limit is dropped to its end.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace roll::agent {

class LineReader {
  public:
    explicit LineReader(std::size_t bytes_max) : bytes_max_(bytes_max) {}

    // One read. False at the end of the pipe.
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
