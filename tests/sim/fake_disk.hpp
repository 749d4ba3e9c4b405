// A disk in memory for SQLite, as a VFS. The disk knows which bytes of each file were synced and
// which were only written. When the power fails, it loses some of the bytes that were only written.
//
// There can be only one disk at a time, because SQLite's default VFS uses the newest disk.
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

    // A write that was not synced afterwards.
    struct Write {
        std::size_t at = 0;
        std::string bytes{};
        bool truncates = false;  // cuts the file to `at` bytes
    };
    struct File {
        std::string bytes{};   // what programs read
        std::string synced{};  // what the disk has for certain
        std::vector<Write> unsynced{};
        bool listed = false;  // the directory entry was synced, so the file is certain to exist
    };
    using Files = std::map<std::string, std::shared_ptr<File>>;

    // Returns what the next program finds. After a power loss, these are the synced bytes, and some
    // 512-byte sectors of the other writes.
    Files after_crash(Random& random, bool power_lost) const;
    void mount(Files files) {
        files_ = std::move(files);
        removed_.clear();
    }
    const Files& files() const { return files_; }
    static Files copy(const Files& files);

    // If set, a write that makes a file longer fails because the disk is full.
    void set_full(bool full) { full_ = full; }
    // Makes every operation fail after the next `operations` operations. nullopt: operations
    // succeed again.
    void break_after(std::optional<int> operations) { good_for_ = operations; }

    // Functions for the VFS.
    bool works();
    bool is_full() const { return full_; }
    std::shared_ptr<File> open(const std::string& name, bool make);
    void remove(const std::string& name, bool for_certain);
    bool holds(const std::string& name) const { return files_.contains(name); }
    std::uint64_t draw() { return static_cast<std::uint64_t>(random_.between(0, 255)); }

  private:
    Random random_;
    Files files_{};
    Files removed_{};  // removed files that may exist again after a power loss
    bool full_ = false;
    std::optional<int> good_for_{};
};

}  // namespace roll::sim
