// Lines out of a pipe. A line longer than the limit is dropped to its end.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace roll::agent {

class LineReader {
  public:
    explicit LineReader(std::size_t bytes_max) : bytes_max_(bytes_max) {}

    // One read. False at the end of the pipe.
    bool fill(int fd);
    std::optional<std::string> next();

  private:
    std::size_t bytes_max_;
    std::string buffer_{};
    std::size_t searched_ = 0;
    bool skipping_ = false;
};

}  // namespace roll::agent
