// Problems of job files.
#pragma once

#include <string>

namespace roll::spec {

// A problem of a job file. `path` is the path of a key ("parallel.tp"). `message` says what was
// found and what is allowed.
struct Problem {
    std::string path;
    std::string message;
};

// Returns the problem as one sentence. An empty path stands for the whole file.
inline std::string sentence(const Problem& problem) {
    return problem.path.empty() ? problem.message : problem.path + " " + problem.message;
}

}  // namespace roll::spec
