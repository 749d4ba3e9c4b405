// A directory for the checkpoints of a test, in memory if possible. It is removed at the end.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace roll::train {

class Scratch {
  public:
    explicit Scratch(const std::string& name) {
        const std::filesystem::path memory = "/dev/shm";
        std::error_code error;
        const std::filesystem::path parent = std::filesystem::is_directory(memory, error)
                                                 ? memory
                                                 : std::filesystem::temp_directory_path();
        std::string pattern = (parent / ("roll-" + name + "-XXXXXX")).string();
        path_ = ::mkdtemp(pattern.data());
    }
    ~Scratch() { std::filesystem::remove_all(path_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    std::filesystem::path operator/(std::size_t i) const { return path_ / std::to_string(i); }

  private:
    std::filesystem::path path_;
};

}  // namespace roll::train
