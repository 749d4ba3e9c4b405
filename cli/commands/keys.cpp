// `rollctl keys`: manages the authorized keys, which are files in the state directory. The command
// does not contact rolld, because rolld sees changes of the files at once.
#include "cli/commands/keys.hpp"

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/group.hpp"
#include "cli/text/render.hpp"
#include "common/files.hpp"
#include "common/io/curve_keys.hpp"
#include "common/io/state_directory.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

Result<void> check_name(const std::string& name) {
    const bool good = !name.empty() && name.size() <= 64 && name[0] != '.' &&
                      std::ranges::all_of(name, [](unsigned char c) {
                          return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
                      });
    if (good) return {};
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{} is not a valid name of a key; allowed: 1 to 64 letters, digits, "
                            "dots, dashes and underscores, not starting with a dot",
                            name));
}

std::string role_of(const std::string& file) {
    if (file.starts_with("worker")) return "worker";
    return file == "client" ? "operator" : "user";
}

// Fails if rolld listens on a Unix socket. Only rolld's own user and root can connect to such a
// socket, and these two users need no key.
Result<void> check_reachable(const std::string& endpoint) {
    if (!endpoint.starts_with("ipc://")) return {};
    return fail(ErrorCode::Refused,
                fmt::format("rolld listens on {}, which only user {} can connect to; other users "
                            "need TCP",
                            endpoint, user_name()),
                "rollctl down; rollctl up --endpoint tcp://0.0.0.0:7070; then add the key");
}

// Returns the state directory. Fails with Refused if the directory contains only a key of another
// user's rolld, because the authorized keys are in the state directory of that rolld.
Result<io::StateDirectory> operators_directory(const Context& context) {
    ROLL_TRY(const auto directory, io::StateDirectory::find(context.directory));
    if (!directory.is_key_holders()) return directory;
    return fail(ErrorCode::Refused,
                fmt::format("{} holds a key of another user's rolld; only the operator of that "
                            "rolld can list and change its keys",
                            directory.root().string()),
                "ask the operator of that rolld to run this command");
}

// Options of `keys add`.
struct KeysOptions {
    std::string name;
    std::string out;  // new directory, which the user who gets the key will use as state directory
    bool worker = false;
};

}  // namespace

std::string trust_text(const std::string& holder) {
    return fmt::format(
        "jobs of {} run as user {}, like all jobs of this rolld. These jobs can read the "
        "operator's key and the files of all users, so all users of this rolld must trust each "
        "other",
        holder, user_name());
}

namespace {

Result<int> run_keys_list(const Context& context) {
    ROLL_TRY(const auto directory, operators_directory(context));
    std::map<std::string, std::string> by_name;
    for (const auto& [key, name] : io::read_authorized(directory.authorized())) by_name[name] = key;
    Json keys = Json::array();
    std::vector<std::vector<std::string>> rows;
    for (const auto& [name, key] : by_name) {
        keys.push_back({{"name", name}, {"role", role_of(name)}, {"public_key", key}});
        rows.push_back({name, role_of(name), key});
    }
    if (context.json) {
        print_json({{"schema", "roll.keys/1"}, {"keys", keys}});
    } else {
        print(table({{"NAME"}, {"ROLE"}, {"PUBLIC KEY"}}, rows, context.color));
    }
    return 0;
}

Result<int> run_keys_add(const Context& context, const KeysOptions& options) {
    ROLL_TRY_VOID(check_name(options.name));
    ROLL_TRY(const auto directory, operators_directory(context));
    const io::StateDirectory bundle(fs::absolute(options.out).lexically_normal());
    if (fs::exists(bundle.root())) {
        return fail(ErrorCode::Refused, bundle.root().string() + " already exists",
                    "use --out with a directory that does not exist yet");
    }
    ROLL_TRY(const std::string server, read_file(directory.keys() / "server.pub"));
    ROLL_TRY(const std::string endpoint, directory.read_endpoint());
    ROLL_TRY_VOID(check_reachable(endpoint));
    const std::string role = options.worker ? "worker" : "client";
    ROLL_TRY_VOID(bundle.make());
    ROLL_TRY(const io::CurveKeys pair, io::load_or_make_curve_keys(bundle.keys(), role));
    ROLL_TRY_VOID(write_file_atomically(bundle.keys() / "server.pub", server));
    ROLL_TRY_VOID(write_file_atomically(bundle.endpoint_file(), endpoint + "\n"));
    // Authorize the key as the last step. The new key replaces an older key with this name.
    const std::string file = role + "-" + options.name;
    const bool replaced = fs::exists(directory.authorized() / (file + ".pub"));
    ROLL_TRY_VOID(
        write_file_atomically(directory.authorized() / (file + ".pub"), pair.public_key + "\n"));
    if (context.json) {
        print_json({{"schema", "roll.key/1"},
                    {"name", file},
                    {"out", bundle.root().string()},
                    {"replaced", replaced}});
    } else {
        if (replaced) say(fmt::format("the earlier key of {} is revoked", file));
        print(
            fmt::format("{} may connect; give the directory {} to the key's holder, who must set "
                        "--dir or ROLL_DIR to it\n",
                        file, bundle.root().string()));
        if (!options.worker) say(trust_text(options.name));
    }
    return 0;
}

Result<int> run_keys_revoke(const Context& context, const std::string& name) {
    ROLL_TRY_VOID(check_name(name));
    ROLL_TRY(const auto directory, operators_directory(context));
    std::error_code error;
    if (!fs::remove(directory.authorized() / (name + ".pub"), error)) {
        return fail(error ? ErrorCode::Failed : ErrorCode::NotFound,
                    error ? fmt::format("cannot revoke {}: {}", name, error.message())
                          : fmt::format("there is no key {}", name),
                    "rollctl keys list");
    }
    if (context.json) {
        print_json({{"schema", "roll.key/1"}, {"name", name}, {"revoked", true}});
    } else {
        print(fmt::format("{} is revoked and can no longer connect\n", name));
    }
    return 0;
}

}  // namespace

void add_keys_commands(CLI::App& keys, const AddCommand& command, const Context& context) {
    const auto options = std::make_shared<KeysOptions>();
    command(keys, "list", "List the authorized keys",
            [&context] { return run_keys_list(context); });
    CLI::App* add = command(keys, "add", "Create and authorize a key for the user (or worker) NAME",
                            [=, &context] { return run_keys_add(context, *options); });
    add->add_option("NAME", options->name, "Name of the user or worker")->required();
    add->add_option("--out", options->out,
                    "Directory to create; the key's holder uses this directory as --dir or "
                    "ROLL_DIR")
        ->required();
    add->add_flag("--worker", options->worker, "Create a worker's key instead of a user's");
    command(keys, "revoke", "Revoke a key; takes effect at once",
            [=, &context] { return run_keys_revoke(context, options->name); })
        ->add_option("NAME", options->name, "Name as `rollctl keys list` shows it")
        ->required();
}

}  // namespace roll::cli
