// Problems of job files.
#pragma once

#include <string>
#include <utility>

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

// Returns the problem of a value as a problem of the document that has the value at the path `at`.
inline Problem at_path(const std::string& at, Problem problem) {
    if (!problem.path.empty()) return {at + "." + problem.path, std::move(problem.message)};
    if (problem.message.starts_with("it ")) problem.message.erase(0, 3);  // `at` is the subject
    return {at, std::move(problem.message)};
}

}  // namespace roll::spec
