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

}  // namespace roll::spec
