#include "common/io/state_directory.hpp"

#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/hash.hpp"

namespace roll::io {
namespace {

// Maximum length of the path ROOT/rolld.sock. The kernel allows 107 characters for a Unix socket's
// path, and local_socket() appends ".cli" to ROOT/rolld.sock.
constexpr std::size_t kSocketPathMax = 100;

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string{} : std::string(value);
}

std::string home() {
    if (std::string value = variable("HOME"); !value.empty()) return value;
    const passwd* entry = ::getpwuid(::getuid());
    return entry == nullptr ? std::string{} : std::string(entry->pw_dir);
}

std::string without_newline(std::string text) {
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
}

// Creates a directory with mode 0700. Fails if the directory exists and belongs to another user,
// because that user could replace the socket in the directory.
Result<void> make_private(const std::filesystem::path& path) {
    ROLL_TRY_VOID(make_directories(path.parent_path()));
    if (::mkdir(path.c_str(), 0700) == 0) return {};
    if (errno != EEXIST)
        return fail(ErrorCode::Refused, "cannot create directory " + path.string() + ": " +
                                            std::generic_category().message(errno));
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
        return fail(ErrorCode::Refused, path.string() + " is not a directory");
    if (info.st_uid != ::geteuid())
        return fail(ErrorCode::Refused,
                    "the directory " + path.string() + " belongs to another user",
                    "use another directory with --dir");
    return {};
}

}  // namespace

Result<StateDirectory> StateDirectory::find(const std::string& flag) {
    std::string root = flag;
    if (root.empty()) root = variable("ROLL_DIR");
    if (root.empty()) {
        std::string base = variable("XDG_STATE_HOME");
        if (base.empty() && !home().empty()) base = home() + "/.local/state";
        if (base.empty())
            return fail(ErrorCode::InvalidArgument,
                        "no state directory: this user has no home directory",
                        "use --dir DIR or set ROLL_DIR");
        root = base + "/roll";
    }
    std::error_code error;
    const auto absolute = std::filesystem::absolute(root, error);
    if (error)
        return fail(ErrorCode::InvalidArgument, "no state directory: " + error.message(),
                    "use --dir with an absolute path");
    auto path = absolute.lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // remove the final slash of "DIR/"
    return StateDirectory(path);
}

bool StateDirectory::is_key_holders() const {
    return path_exists(keys() / "server.pub") && !path_exists(keys() / "server.key");
}

Result<void> StateDirectory::check_own() const {
    if (!is_key_holders()) return {};
    return fail(ErrorCode::Refused,
                root_.string() + " contains the key of a rolld that runs " +
                    "from another state directory; a rolld started here would overwrite that key",
                "use --dir DIR or set ROLL_DIR to start your own rolld in another directory");
}

Result<void> StateDirectory::make() const {
    ROLL_TRY_VOID(make_private(root_));
    ROLL_TRY_VOID(make_private(keys()));
    return make_private(authorized());
}

Result<std::string> StateDirectory::default_endpoint() const {
    const auto near = root_ / "rolld.sock";
    if (near.native().size() <= kSocketPathMax) return "ipc://" + near.string();
    std::filesystem::path runtime = variable("XDG_RUNTIME_DIR");
    if (runtime.empty())
        runtime = "/tmp/roll-" + std::to_string(::getuid());
    else
        runtime /= "roll";
    ROLL_TRY_VOID(make_private(runtime));
    return "ipc://" + (runtime / (to_hex(hash64(root_.native())) + ".sock")).string();
}

Result<std::string> StateDirectory::local_socket() const {
    ROLL_TRY(const std::string endpoint, default_endpoint());
    return endpoint.substr(std::string_view("ipc://").size()) + ".cli";
}

Result<std::string> StateDirectory::read_endpoint() const {
    const auto text = read_file(endpoint_file());
    if (text) return without_newline(*text);
    if (text.error().code != ErrorCode::NotFound) return tl::unexpected(text.error());
    return fail(ErrorCode::Unavailable, "no rolld runs with the state directory " + root_.string(),
                "rollctl up");
}

}  // namespace roll::io
