// Runs ranks as processes, for tests.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace roll::train {

// Forks `count` ranks, which call `body`. Returns their exit statuses: 128 + n if killed by signal
// n, and 99 for an uncaught exception. Requires that the calling process has not started threads.
inline std::vector<int> run_processes(int count, const std::function<int(int rank)>& body) {
    std::vector<pid_t> children;
    for (int rank = 0; rank < count; ++rank) {
        const pid_t child = fork();
        if (child != 0) {
            children.push_back(child);
            continue;
        }
        try {
            std::_Exit(body(rank));
        } catch (const std::exception& error) {
            std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
            std::_Exit(99);
        }
    }
    std::vector<int> statuses;
    for (const pid_t child : children) {
        int status = 0;
        waitpid(child, &status, 0);
        statuses.push_back(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    }
    return statuses;
}

}  // namespace roll::train
