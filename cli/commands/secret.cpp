// `rollctl secret`: manages the secrets of a user's jobs. Values are read from stdin or a file,
// because every user of the machine can see the command lines of processes.
#include <iostream>
#include <iterator>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <termios.h>
#include <unistd.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/group.hpp"
#include "cli/text/render.hpp"
#include "common/files.hpp"
#include "common/protocol/cluster_operations.hpp"

namespace roll::cli {
namespace {

// Reads a line from the terminal without echo.
std::string ask_for(const std::string& name) {
    termios shown{};
    ::tcgetattr(STDIN_FILENO, &shown);
    termios hidden = shown;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    std::cerr << "value of " << name << " (not shown): " << std::flush;
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
    std::string line;
    std::getline(std::cin, line);
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
    say("");
    return line;
}

// Reads the value of the secret `name` from `file`, the terminal or stdin. Removes the newline that
// `echo` and editors add at the end of a value.
Result<std::string> read_value(const std::string& name, const std::string& file) {
    std::string value;
    if (!file.empty()) {
        ROLL_TRY(value, read_file(file));
    } else if (::isatty(STDIN_FILENO) != 0) {
        value = ask_for(name);
    } else {
        value.assign(std::istreambuf_iterator<char>(std::cin), {});
    }
    if (value.ends_with('\n')) value.pop_back();
    return value;
}

template <class Args>
Result<int> change_secret(const Context& context, const Args& args) {
    ROLL_TRY(const Json reply, change(context, args));
    const std::string name = reply.value("name", "");
    const char* const what = !reply.value("set", false)       ? "removed"
                             : reply.value("replaced", false) ? "replaced"
                                                              : "set";
    if (context.json)
        print_json(reply);
    else
        print(context.parsable ? name + "\n" : fmt::format("secret {} is {}\n", name, what));
    return 0;
}

Result<int> run_secret_set(const Context& context, const std::string& name,
                           const std::string& file) {
    ROLL_TRY(const std::string value, read_value(name, file));
    return change_secret(context, protocol::SecretSetArgs{name, user_name(), value});
}

Result<int> run_secret_remove(const Context& context, const std::string& name) {
    return change_secret(context, protocol::SecretRemoveArgs{name, user_name()});
}

Result<int> run_secret_list(const Context& context) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json reply, daemon.ask(protocol::SecretListArgs{}));
    if (context.json) {
        print_json(reply);
        return 0;
    }
    std::vector<std::vector<std::string>> rows;
    for (const Json& one : reply.value("secrets", Json::array())) {
        if (context.parsable) print(one.value("name", "") + "\n");
        std::string jobs;
        for (const Json& job : one.value("jobs", Json::array()))
            jobs += (jobs.empty() ? "" : ",") + job.dump();
        rows.push_back({one.value("name", ""), one.value("user", ""), one.value("set_at", ""),
                        jobs.empty() ? "-" : jobs});
    }
    if (!context.parsable)
        print(table({{"NAME"}, {"USER"}, {"SET"}, {"JOBS"}}, rows, context.color));
    return 0;
}

}  // namespace

void add_secret_commands(CLI::App& secret, const AddCommand& command, const Context& context) {
    const auto name = std::make_shared<std::string>(), file = std::make_shared<std::string>();
    CLI::App* set = command(secret, "set", "Store a secret; the value is read from stdin",
                            [=, &context] { return run_secret_set(context, *name, *file); });
    set->add_option("NAME", *name, "Name of the environment variable")->required();
    set->add_option("--from", *file, "Read the value from this file instead of stdin");
    command(secret, "list", "List secrets and the jobs that use or wait for them",
            [&context] { return run_secret_list(context); });
    command(secret, "remove", "Delete a secret; jobs that need it wait",
            [=, &context] { return run_secret_remove(context, *name); })
        ->add_option("NAME", *name)
        ->required();
}

}  // namespace roll::cli
