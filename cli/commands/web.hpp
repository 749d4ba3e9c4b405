// `rollctl web`: replaces rollctl by roll-web, which serves the dashboard.
#pragma once

#include <string>

#include "cli/client/context.hpp"

namespace CLI {
class App;
}

namespace roll::cli {

struct WebOptions {
    std::string listen;
    bool read_only = false;
};
void add_web_options(CLI::App& command, WebOptions& options);
// Replaces this process by roll-web. Returns only if roll-web cannot be started.
Result<int> run_web(const Context& context, const WebOptions& options);

}  // namespace roll::cli
