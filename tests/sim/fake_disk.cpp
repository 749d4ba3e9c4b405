#include "tests/sim/fake_disk.hpp"

#include <algorithm>
#include <cstring>

#include "tests/daemon/ledger/file_methods.hpp"

namespace roll::sim {
namespace {

constexpr std::size_t kSector = 512;

FakeDisk* g_disk = nullptr;

// SQLite's data of an open file. There is only one connection, so locks are always free.
struct Handle {
    sqlite3_file base;  // SQLite's part must be first
    std::shared_ptr<FakeDisk::File>* file;
    std::vector<std::unique_ptr<char[]>>* shared;  // shared memory, which has the WAL's index
};

Handle& handle_of(sqlite3_file* file) { return *reinterpret_cast<Handle*>(file); }
FakeDisk::File& file_of(sqlite3_file* file) { return **handle_of(file).file; }

struct Methods {
    static int close(sqlite3_file* file) {
        delete handle_of(file).file;
        delete handle_of(file).shared;
        return SQLITE_OK;
    }

    static int read(sqlite3_file* file, void* to, int amount, sqlite3_int64 at) {
        if (!g_disk->works()) return SQLITE_IOERR_READ;
        const std::string& bytes = file_of(file).bytes;
        const auto from = std::min(static_cast<std::size_t>(at), bytes.size());
        const auto count = std::min(static_cast<std::size_t>(amount), bytes.size() - from);
        std::memcpy(to, bytes.data() + from, count);
        std::memset(static_cast<char*>(to) + count, 0, static_cast<std::size_t>(amount) - count);
        return count == static_cast<std::size_t>(amount) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
    }

    static int write(sqlite3_file* file, const void* from, int amount, sqlite3_int64 at) {
        FakeDisk::File& open = file_of(file);
        const auto end = static_cast<std::size_t>(at + amount);
        if (!g_disk->works()) return SQLITE_IOERR_WRITE;
        if (end > open.bytes.size() && g_disk->is_full()) return SQLITE_FULL;
        std::string bytes(static_cast<const char*>(from), static_cast<std::size_t>(amount));
        if (end > open.bytes.size()) open.bytes.resize(end);
        open.bytes.replace(static_cast<std::size_t>(at), bytes.size(), bytes);
        open.unsynced.push_back({static_cast<std::size_t>(at), std::move(bytes)});
        return SQLITE_OK;
    }

    static int truncate(sqlite3_file* file, sqlite3_int64 size) {
        if (!g_disk->works()) return SQLITE_IOERR_TRUNCATE;
        file_of(file).bytes.resize(static_cast<std::size_t>(size));
        file_of(file).unsynced.push_back({static_cast<std::size_t>(size), "", true});
        return SQLITE_OK;
    }

    static int sync(sqlite3_file* file, int) {
        if (!g_disk->works()) return SQLITE_IOERR_FSYNC;
        FakeDisk::File& open = file_of(file);
        for (const FakeDisk::Write& write : open.unsynced) {
            if (open.synced.size() < write.at + write.bytes.size() || write.truncates)
                open.synced.resize(write.at + write.bytes.size());
            open.synced.replace(write.at, write.bytes.size(), write.bytes);
        }
        open.unsynced.clear();
        open.listed = true;
        return SQLITE_OK;
    }

    static int file_size(sqlite3_file* file, sqlite3_int64* size) {
        *size = static_cast<sqlite3_int64>(file_of(file).bytes.size());
        return SQLITE_OK;
    }
    static int lock(sqlite3_file*, int) { return SQLITE_OK; }
    static int unlock(sqlite3_file*, int) { return SQLITE_OK; }
    static int check_reserved(sqlite3_file*, int* out) {
        *out = 0;
        return SQLITE_OK;
    }
    static int control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
    static int sector_size(sqlite3_file*) { return 4096; }
    // SQLite assumes this of all disks on Unix: a write does not change the bytes next to it.
    static int characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

    static int shm_map(sqlite3_file* file, int page, int size, int extend, void volatile** to) {
        auto& shared = *handle_of(file).shared;
        *to = nullptr;
        while (extend != 0 && std::ssize(shared) <= page)
            shared.push_back(std::make_unique<char[]>(static_cast<std::size_t>(size)));
        if (page < std::ssize(shared)) *to = shared[static_cast<std::size_t>(page)].get();
        return SQLITE_OK;
    }
    static int shm_lock(sqlite3_file*, int, int, int) { return SQLITE_OK; }
    static void shm_barrier(sqlite3_file*) {}
    static int shm_unmap(sqlite3_file* file, int) {
        handle_of(file).shared->clear();
        return SQLITE_OK;
    }
};

int on_open(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* out) {
    file->pMethods = nullptr;
    auto opened = g_disk->open(name == nullptr ? "" : name, (flags & SQLITE_OPEN_CREATE) != 0);
    if (!opened) return SQLITE_CANTOPEN;
    handle_of(file).file = new std::shared_ptr<FakeDisk::File>(std::move(opened));
    handle_of(file).shared = new std::vector<std::unique_ptr<char[]>>;
    file->pMethods = ledger::file_methods<Methods>();
    if (out != nullptr) *out = flags;
    return SQLITE_OK;
}

int on_delete(sqlite3_vfs*, const char* name, int sync_directory) {
    if (!g_disk->works()) return SQLITE_IOERR_DELETE;
    g_disk->remove(name, sync_directory != 0);
    return SQLITE_OK;
}
int on_access(sqlite3_vfs*, const char* name, int, int* out) {
    *out = g_disk->holds(name) ? 1 : 0;
    return SQLITE_OK;
}
int on_full_pathname(sqlite3_vfs*, const char* name, int size, char* to) {
    sqlite3_snprintf(size, to, "%s", name);
    return SQLITE_OK;
}
int on_randomness(sqlite3_vfs*, int size, char* to) {
    for (int i = 0; i < size; ++i) to[i] = static_cast<char>(g_disk->draw());
    return size;
}

void install() {
    static sqlite3_vfs vfs;
    if (vfs.zName != nullptr) return;
    sqlite3_initialize();
    vfs = *sqlite3_vfs_find(nullptr);
    vfs.zName = "memory disk";
    vfs.szOsFile = sizeof(Handle);
    vfs.xOpen = on_open;
    vfs.xDelete = on_delete;
    vfs.xAccess = on_access;
    vfs.xFullPathname = on_full_pathname;
    vfs.xRandomness = on_randomness;
    sqlite3_vfs_register(&vfs, 1);
}

}  // namespace

FakeDisk::FakeDisk(std::uint64_t seed) : random_(seed) {
    g_disk = this;
    install();
    sqlite3_randomness(0, nullptr);  // makes SQLite draw random numbers from this disk
}

FakeDisk::~FakeDisk() { g_disk = nullptr; }

bool FakeDisk::works() {
    if (!good_for_) return true;
    if (*good_for_ == 0) return false;
    --*good_for_;
    return true;
}

std::shared_ptr<FakeDisk::File> FakeDisk::open(const std::string& name, bool make) {
    const auto found = files_.find(name);
    if (found != files_.end()) return found->second;
    if (!make) return nullptr;
    removed_.erase(name);
    return files_[name] = std::make_shared<File>();
}

void FakeDisk::remove(const std::string& name, bool for_certain) {
    auto gone = files_.extract(name);
    if (!for_certain && gone && gone.mapped()->listed) removed_.insert(std::move(gone));
}

FakeDisk::Files FakeDisk::copy(const Files& files) {
    Files copied;
    for (const auto& [name, file] : files) copied[name] = std::make_shared<File>(*file);
    return copied;
}

FakeDisk::Files FakeDisk::after_crash(Random& random, bool power_lost) const {
    Files found = copy(files_);
    if (!power_lost) return found;
    // Percentage of sectors that survive: none, some or all.
    const int kept = random.between(0, 4) * 25;
    for (const auto& [name, file] : removed_)
        if (random.percent(50)) found.emplace(name, std::make_shared<File>(*file));
    std::erase_if(found,
                  [&](const auto& item) { return !item.second->listed && random.percent(50); });
    for (auto& [name, file] : found) {
        for (const Write& write : std::exchange(file->unsynced, {})) {
            if (write.truncates && random.percent(kept)) file->synced.resize(write.at);
            for (std::size_t done = 0; done < write.bytes.size();) {
                const std::size_t at = write.at + done;
                const auto size = std::min(write.bytes.size() - done, kSector - at % kSector);
                done += size;
                if (!random.percent(kept)) continue;
                if (file->synced.size() < at + size) file->synced.resize(at + size);
                file->synced.replace(at, size, write.bytes, done - size, size);
            }
        }
        file->bytes = file->synced;
        file->listed = true;
    }
    return found;
}

}  // namespace roll::sim
