#include "tests/daemon/ledger/crash_disk.hpp"

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/daemon/ledger/file_methods.hpp"

namespace roll::ledger {
namespace {

struct File {
    sqlite3_file base;  // SQLite's part must be first
    sqlite3_file* real;
    char* name;
};

// The bytes that a write or truncation replaced. Kept until the file is synced.
struct Undo {
    sqlite3_file* file;
    sqlite3_int64 size;
    sqlite3_int64 at;
    std::string bytes;
};

sqlite3_vfs* g_disk = nullptr;  // the real VFS
Crash g_crash = Crash::Kill;
int g_at = 0;
bool g_broken = false;
int* g_count = nullptr;  // number of operations, shared with the parent process
std::vector<Undo> g_unsynced;
// Files whose deletion is not synced; hard links keep their content.
std::vector<std::string> g_deleted;

sqlite3_file* real(sqlite3_file* file) { return reinterpret_cast<File*>(file)->real; }

void remember(sqlite3_file* file, sqlite3_int64 at, int amount) {
    Undo undo{file, 0, at, std::string(static_cast<std::size_t>(amount), '\0')};
    file->pMethods->xFileSize(file, &undo.size);
    file->pMethods->xRead(file, undo.bytes.data(), amount, at);
    g_unsynced.push_back(std::move(undo));
}

void lose_unsynced() {
    for (auto undo = g_unsynced.rbegin(); undo != g_unsynced.rend(); ++undo) {
        sqlite3_file* const file = undo->file;
        file->pMethods->xWrite(file, undo->bytes.data(), static_cast<int>(undo->bytes.size()),
                               undo->at);
        file->pMethods->xTruncate(file, undo->size);
    }
    for (const std::string& name : g_deleted) {
        if (::access(name.c_str(), F_OK) != 0) ::rename((name + ".deleted").c_str(), name.c_str());
    }
}

// Called before an operation. Ends the process, or returns whether the operation must fail.
bool crashes(const std::function<void()>& half = {}) {
    if (g_broken) return true;
    if ((*g_count)++ != g_at) return false;
    if (g_crash == Crash::Error) return g_broken = true;
    if (g_crash == Crash::Torn && half) half();
    if (g_crash == Crash::PowerLoss) lose_unsynced();
    ::_exit(9);
}

struct Methods {
    static int close(sqlite3_file* file) {
        const int done = real(file)->pMethods->xClose(real(file));
        std::erase_if(g_unsynced, [&](const Undo& undo) { return undo.file == real(file); });
        return done;
    }
    static int read(sqlite3_file* file, void* to, int amount, sqlite3_int64 at) {
        return real(file)->pMethods->xRead(real(file), to, amount, at);
    }
    static int write(sqlite3_file* file, const void* from, int amount, sqlite3_int64 at) {
        const auto half = [&] { real(file)->pMethods->xWrite(real(file), from, amount / 2, at); };
        if (crashes(half)) return SQLITE_IOERR_WRITE;
        if (g_crash == Crash::PowerLoss) remember(real(file), at, amount);
        return real(file)->pMethods->xWrite(real(file), from, amount, at);
    }
    static int truncate(sqlite3_file* file, sqlite3_int64 size) {
        if (crashes()) return SQLITE_IOERR_TRUNCATE;
        sqlite3_int64 before = 0;
        real(file)->pMethods->xFileSize(real(file), &before);
        if (g_crash == Crash::PowerLoss && before > size)
            remember(real(file), size, static_cast<int>(before - size));
        return real(file)->pMethods->xTruncate(real(file), size);
    }
    static int sync(sqlite3_file* file, int flags) {
        if (crashes()) return SQLITE_IOERR_FSYNC;
        std::erase_if(g_unsynced, [&](const Undo& undo) { return undo.file == real(file); });
        return real(file)->pMethods->xSync(real(file), flags);
    }
    static int file_size(sqlite3_file* file, sqlite3_int64* size) {
        return real(file)->pMethods->xFileSize(real(file), size);
    }
    static int lock(sqlite3_file* file, int level) {
        return real(file)->pMethods->xLock(real(file), level);
    }
    static int unlock(sqlite3_file* file, int level) {
        return real(file)->pMethods->xUnlock(real(file), level);
    }
    static int check_reserved(sqlite3_file* file, int* out) {
        return real(file)->pMethods->xCheckReservedLock(real(file), out);
    }
    static int control(sqlite3_file* file, int op, void* argument) {
        return real(file)->pMethods->xFileControl(real(file), op, argument);
    }
    static int sector_size(sqlite3_file* file) {
        return real(file)->pMethods->xSectorSize(real(file));
    }
    static int characteristics(sqlite3_file* file) {
        return real(file)->pMethods->xDeviceCharacteristics(real(file));
    }
    static int shm_map(sqlite3_file* file, int page, int size, int extend, void volatile** to) {
        return real(file)->pMethods->xShmMap(real(file), page, size, extend, to);
    }
    static int shm_lock(sqlite3_file* file, int offset, int n, int flags) {
        return real(file)->pMethods->xShmLock(real(file), offset, n, flags);
    }
    static void shm_barrier(sqlite3_file* file) { real(file)->pMethods->xShmBarrier(real(file)); }
    static int shm_unmap(sqlite3_file* file, int remove) {
        return real(file)->pMethods->xShmUnmap(real(file), remove);
    }
};

int on_open(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* out) {
    File* const wrapped = reinterpret_cast<File*>(file);
    wrapped->base.pMethods = nullptr;
    wrapped->real = reinterpret_cast<sqlite3_file*>(wrapped + 1);
    const int opened = g_disk->xOpen(g_disk, name, wrapped->real, flags, out);
    if (opened == SQLITE_OK) wrapped->base.pMethods = file_methods<Methods>();
    return opened;
}

int on_delete(sqlite3_vfs*, const char* name, int sync_directory) {
    if (crashes()) return SQLITE_IOERR_DELETE;
    const std::string kept = std::string(name) + ".deleted";
    if (g_crash == Crash::PowerLoss && sync_directory == 0 && ::link(name, kept.c_str()) == 0)
        g_deleted.emplace_back(name);
    return g_disk->xDelete(g_disk, name, sync_directory);
}

void install() {
    g_disk = sqlite3_vfs_find(nullptr);
    static sqlite3_vfs vfs = *g_disk;
    vfs.zName = "crash";
    vfs.szOsFile = static_cast<int>(sizeof(File)) + g_disk->szOsFile;
    vfs.xOpen = on_open;
    vfs.xDelete = on_delete;
    sqlite3_vfs_register(&vfs, 1);
}

}  // namespace

int run_with_crash(Crash crash, int at, const std::function<void()>& work) {
    g_count = static_cast<int*>(
        ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    const pid_t child = ::fork();
    if (child == 0) {
        g_crash = crash;
        g_at = at;
        install();
        work();
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    const int count = *g_count;
    ::munmap(g_count, sizeof(int));
    return count;
}

}  // namespace roll::ledger
