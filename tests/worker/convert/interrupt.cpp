// A library for LD_PRELOAD that interrupts a program. At the INTERRUPT_AT-th change that the
// program makes to the file system (a write, an fsync, a rename, a new directory), the program is
// killed. With INTERRUPT_WITH=full, the disk is full from this change on instead. With
// INTERRUPT_SHRINK=FILE, FILE loses its second half instead. INTERRUPT_FREE is the number of free
// bytes that every disk reports. INTERRUPT_FLIP=BYTES turns one bit of the first write of at least
// BYTES bytes.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

std::atomic<long> changes{0};

long limit() {
    const char* const at = std::getenv("INTERRUPT_AT");
    return at == nullptr ? 0 : std::atol(at);
}

// Counts a change. Returns true if the call must fail. `takes_space` is false for a call that works
// on a full disk, such as a rename.
bool interrupted(bool takes_space) {
    static const long at = limit();
    static const char* const with = std::getenv("INTERRUPT_WITH");
    if (at == 0 || ++changes < at) return false;
    static const char* const shrinks = std::getenv("INTERRUPT_SHRINK");
    if (shrinks != nullptr) {
        struct stat info {};
        if (changes == at && ::stat(shrinks, &info) == 0)
            static_cast<void>(::truncate(shrinks, info.st_size / 2));
        return false;
    }
    if (with == nullptr) ::kill(::getpid(), SIGKILL);
    if (!takes_space) return false;
    errno = ENOSPC;
    return true;
}

bool turns_one(size_t size) {
    static const char* const least = std::getenv("INTERRUPT_FLIP");
    static std::atomic<bool> done{false};
    return least != nullptr && size >= std::strtoul(least, nullptr, 10) && !done.exchange(true);
}

template <class Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
    static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
    if (fd > 2 && interrupted(true)) return -1;
    return real(fd, data, size);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
    static auto* const real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
    if (interrupted(true)) return -1;
    if (!turns_one(size)) return real(fd, data, size, offset);
    std::string turned(static_cast<const char*>(data), size);
    turned[size / 2] = static_cast<char>(turned[size / 2] ^ 1);
    return real(fd, turned.data(), size, offset);
}

ssize_t pwrite64(int fd, const void* data, size_t size, off_t offset) {
    return pwrite(fd, data, size, offset);
}

int fsync(int fd) {
    static auto* const real = next<int(int)>("fsync");
    return interrupted(false) ? -1 : real(fd);
}

int mkdir(const char* path, mode_t mode) {
    static auto* const real = next<int(const char*, mode_t)>("mkdir");
    return interrupted(true) ? -1 : real(path, mode);
}

int rename(const char* from, const char* to) {
    static auto* const real = next<int(const char*, const char*)>("rename");
    return interrupted(false) ? -1 : real(from, to);
}

int link(const char* from, const char* to) {
    static auto* const real = next<int(const char*, const char*)>("link");
    return interrupted(true) ? -1 : real(from, to);
}

int symlink(const char* from, const char* to) {
    static auto* const real = next<int(const char*, const char*)>("symlink");
    return interrupted(true) ? -1 : real(from, to);
}

int unlinkat(int directory, const char* path, int flags) {
    static auto* const real = next<int(int, const char*, int)>("unlinkat");
    return interrupted(false) ? -1 : real(directory, path, flags);
}

int statvfs(const char* path, struct statvfs* info) {
    static auto* const real = next<int(const char*, struct statvfs*)>("statvfs");
    const int done = real(path, info);
    if (const char* const bytes = std::getenv("INTERRUPT_FREE"))
        info->f_bavail = std::strtoul(bytes, nullptr, 10) / info->f_frsize;
    return done;
}

long syscall(long number, ...) {
    static auto* const real = next<long(long, ...)>("syscall");
    va_list list;
    va_start(list, number);
    long words[6];
    for (long& word : words) word = va_arg(list, long);
    va_end(list);
    if (number == SYS_renameat2 && interrupted(false)) return -1;
    return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
}
