#include "cli/commands/web.hpp"

#include <CLI/CLI.hpp>

#include "cli/commands/commands.hpp"
#include "common/io/state_directory.hpp"

namespace roll::cli {

void add_web_options(CLI::App& command, WebOptions& options) {
    command.add_option("--listen", options.listen, "Address and port [127.0.0.1:8410]");
    command.add_option("--host", options.hosts, "Also serve requests for this host name");
    command.add_flag("--read-only", options.read_only, "Refuse to cancel, hold or release jobs");
    command.add_option("--certificate", options.certificate,
                       "Serve TLS with this certificate and its chain, in PEM");
    command.add_option("--key", options.key, "Private key of the certificate, in PEM");
    command.add_flag("--insecure", options.insecure, "Allow an address that other machines reach");
}

Result<int> run_web(const Context& context, const WebOptions& options) {
    ROLL_TRY(const io::StateDirectory directory, io::StateDirectory::find(context.directory));
    std::vector<std::string> arguments{"--dir", directory.root().string()};
    if (!options.listen.empty()) arguments.insert(arguments.end(), {"--listen", options.listen});
    for (const std::string& host : options.hosts)
        arguments.insert(arguments.end(), {"--host", host});
    // If only one of the two options is given, roll-web reports the error.
    if (!options.certificate.empty())
        arguments.insert(arguments.end(), {"--certificate", options.certificate});
    if (!options.key.empty()) arguments.insert(arguments.end(), {"--key", options.key});
    if (options.read_only) arguments.emplace_back("--read-only");
    if (options.insecure) arguments.emplace_back("--insecure");
    return tl::unexpected(become("roll-web", arguments));
}

}  // namespace roll::cli
