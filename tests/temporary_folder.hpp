// A folder for the files of a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace roll {

// Makes a folder; removes it with its content at the end. It stands where its path would.
class TemporaryFolder : public std::filesystem::path {
  public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "roll-test-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) std::abort();
        assign(name);
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(*this, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    const std::filesystem::path& path() const { return *this; }
};

}  // namespace roll
