// A folder for the files of a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace roll {

// The path of a new folder. The destructor removes the folder with its content. The class derives
// from path so that tests can write `folder / "file"` and pass the folder to functions that take a
// path.
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
};

}  // namespace roll
