#include "worker/agent/process/program_spawn.hpp"

#include <algorithm>
#include <csignal>

namespace roll::agent {
namespace {

// Returns this process's environment variables with the variables `more` added. If a variable is in
// both, the value in `more` is used.
std::vector<std::string> environment_with(const std::vector<std::string>& more) {
    std::vector<std::string> all = more;
    for (std::string& variable : io::current_environment()) {
        const std::string name = variable.substr(0, variable.find('=') + 1);
        const auto has_name = [&](const std::string& other) { return other.starts_with(name); };
        if (std::ranges::none_of(more, has_name)) all.push_back(std::move(variable));
    }
    return all;
}

}  // namespace

io::Spawn spawn_of(const Program& program, pid_t group,
                   const std::vector<io::Descriptor>& cgroups) {
    io::Spawn spawn;
    spawn.arguments = program.arguments;
    spawn.environment = environment_with(program.environment);
    spawn.directory = program.directory;
    spawn.group = group;
    spawn.cpus = program.cpus;
    spawn.death_signal = SIGKILL;
    for (const io::Descriptor& procs : cgroups) spawn.cgroups.push_back(procs.get());
    return spawn;
}

}  // namespace roll::agent
