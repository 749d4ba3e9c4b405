// Adds the argument that names jobs.
#pragma once

#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace roll::cli {

// Adds the argument JOBS: a selector of jobs, or several of them. Several words become one
// selector, with commas between them.
CLI::Option* add_selector(CLI::App& command, std::string& selector);

}  // namespace roll::cli
