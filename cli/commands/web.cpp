#include "cli/commands/web.hpp"

#include <CLI/CLI.hpp>

#include "cli/commands/commands.hpp"
#include "common/io/state_directory.hpp"

namespace roll::cli {

void add_web_options(CLI::App& command, WebOptions& options) {
    command.add_option(
        "--listen", options.listen,
        "Address and port to listen on; overrides http.listen in rolld.yaml [127.0.0.1:8410]");
    command.add_flag("--read-only", options.read_only, "Refuse all changes");
}

Result<int> run_web(const Context& context, const WebOptions& options) {
    ROLL_TRY(const io::StateDirectory directory, io::StateDirectory::find(context.directory));
    std::vector<std::string> arguments{"--dir", directory.root().string()};
    if (!options.listen.empty()) arguments.insert(arguments.end(), {"--listen", options.listen});
    if (options.read_only) arguments.emplace_back("--read-only");
    return tl::unexpected(become("roll-web", arguments));
}

}  // namespace roll::cli
