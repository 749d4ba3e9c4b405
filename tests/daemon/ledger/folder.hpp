// A folder for the ledgers of a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace roll::ledger {

// Makes a folder; removes it with its content at the end.
class Folder {
  public:
    Folder() {
        std::string name = std::filesystem::temp_directory_path() / "roll-ledger-XXXXXX";
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        path_ = name;
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(path_); }
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

}  // namespace roll::ledger
