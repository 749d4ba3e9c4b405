#include "cli/commands/selector.hpp"

#include <CLI/CLI.hpp>

namespace roll::cli {

CLI::Option* add_selector(CLI::App& command, std::string& selector) {
    return command
        .add_option(
            "JOBS", selector,
            "Ids (7, 3-9, 1,4 or 12_3), `last`, `all`, `@me` or names with wildcards (* and ?)")
        ->expected(1, -1)
        ->allow_extra_args()
        ->join(',');
}

}  // namespace roll::cli
