// A program that writes the time of its start (CLOCK_MONOTONIC, nanoseconds) to the file named by
// its argument, and ends.
#include <cstdint>
#include <ctime>

#include <fcntl.h>
#include <unistd.h>

int main(int argc, char** argv) {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const std::int64_t began = now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
    const int fd = argc > 1 ? ::open(argv[1], O_WRONLY) : -1;
    return fd >= 0 && ::write(fd, &began, sizeof began) == sizeof began ? 0 : 1;
}
