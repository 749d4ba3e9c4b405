// Adds the argument that names jobs.
#pragma once

#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace roll::cli {

// Adds the argument JOBS: one or more selectors of jobs. Joins several selectors with commas to one
// selector.
CLI::Option* add_selector(CLI::App& command, std::string& selector);

}  // namespace roll::cli
