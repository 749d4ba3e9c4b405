// A disk in memory under SQLite, as a VFS: it knows of each file what was synced and what was only
// written, and loses a part of the latter when the power goes.
//
// One disk at a time: SQLite's default VFS is that of the newest.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/random.hpp"

namespace roll::sim {

class FakeDisk {
  public:
    explicit FakeDisk(std::uint64_t seed);
    ~FakeDisk();
    FakeDisk(const FakeDisk&) = delete;
    FakeDisk& operator=(const FakeDisk&) = delete;

    // Something written and not synced since.
    struct Write {
        std::size_t at = 0;
        std::string bytes{};
        bool truncates = false;  // to `at`
    };
    struct File {
        std::string bytes{};   // as programs see it
        std::string synced{};  // as it lies on the disk for certain
        std::vector<Write> unsynced{};
        bool listed = false;  // its name is certain to be found again
    };
    using Files = std::map<std::string, std::shared_ptr<File>>;

    // What the next program finds: everything, or, after a loss of power, what was synced and of
    // each other write those 512-byte sectors that had reached the disk.
    Files after_crash(Random& random, bool power_lost) const;
    void mount(Files files) {
        files_ = std::move(files);
        removed_.clear();
    }
    const Files& files() const { return files_; }
    static Files copy(const Files& files);

    // Writes that make a file longer are refused.
    void set_full(bool full) { full_ = full; }
    // Every operation fails once so many more have been done; none: the disk is well again.
    void break_after(std::optional<int> operations) { good_for_ = operations; }

    // Of the VFS.
    bool works();
    bool is_full() const { return full_; }
    std::shared_ptr<File> open(const std::string& name, bool make);
    void remove(const std::string& name, bool for_certain);
    bool holds(const std::string& name) const { return files_.contains(name); }
    std::uint64_t draw() { return static_cast<std::uint64_t>(random_.between(0, 255)); }

  private:
    Random random_;
    Files files_{};
    Files removed_{};  // whose removal may be lost
    bool full_ = false;
    std::optional<int> good_for_{};
};

}  // namespace roll::sim
