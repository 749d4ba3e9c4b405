#include "common/io/curve_keys.hpp"

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "common/check.hpp"
#include "common/files.hpp"

namespace roll::io {
namespace {

constexpr std::size_t kKeyChars = 40;
using KeyBuffer = std::array<char, kKeyChars + 1>;

// Returns the key in a file's text; empty if there is none.
std::string key_in(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
    std::array<std::uint8_t, 32> bytes{};
    const std::string key(text);
    if (key.size() != kKeyChars || zmq_z85_decode(bytes.data(), key.c_str()) == nullptr) return {};
    return key;
}

std::string public_of(const std::string& secret) {
    KeyBuffer buffer{};
    ROLL_CHECK(zmq_curve_public(buffer.data(), secret.c_str()) == 0);
    return buffer.data();
}

// Writes the public key to the directory `authorized`, then to NAME.pub. Therefore, if NAME.pub
// is missing, the creation of the pair was interrupted.
Result<void> publish(const std::string& public_key, const std::filesystem::path& directory,
                     const std::string& name, const std::filesystem::path& authorized) {
    if (!authorized.empty())
        ROLL_TRY_VOID(write_file_atomically(authorized / (name + ".pub"), public_key + "\n"));
    return write_file_atomically(directory / (name + ".pub"), public_key + "\n");
}

Result<CurveKeys> make_pair(const std::filesystem::path& directory, const std::string& name,
                            const std::filesystem::path& authorized) {
    const CurveKeys keys = make_curve_keys();
    const std::filesystem::path file = directory / (name + ".key");
    const std::filesystem::path temporary =
        directory / ("." + name + ".key." + std::to_string(::getpid()));
    ROLL_TRY_VOID(write_private_file(temporary, keys.secret_key + "\n"));
    // Several processes may create the pair at once. The first rename wins; the other processes
    // load the pair that the winner has created.
    if (const auto renamed = rename_new(temporary, file); !renamed) {
        ::unlink(temporary.c_str());
        if (::access(file.c_str(), F_OK) == 0) return load_curve_keys(directory, name);
        return tl::unexpected(renamed.error());
    }
    ROLL_TRY_VOID(publish(keys.public_key, directory, name, authorized));
    return keys;
}

}  // namespace

CurveKeys make_curve_keys() {
    KeyBuffer public_key{};
    KeyBuffer secret_key{};
    ROLL_CHECK(zmq_curve_keypair(public_key.data(), secret_key.data()) == 0);
    return {public_key.data(), secret_key.data()};
}

Result<CurveKeys> load_curve_keys(const std::filesystem::path& directory, const std::string& name) {
    const std::filesystem::path file = directory / (name + ".key");
    ROLL_TRY(const std::string text, read_private_file(file));
    const std::string secret = key_in(text);
    if (secret.empty())
        return fail(ErrorCode::Corrupt, "the file " + file.string() + " contains no CURVE key",
                    "delete this file; the next start creates a new pair of keys");
    return CurveKeys{public_of(secret), secret};
}

Result<std::string> load_public_key(const std::filesystem::path& file) {
    ROLL_TRY(const std::string text, read_file(file));
    std::string key = key_in(text);
    if (key.empty())
        return fail(ErrorCode::Corrupt, "the file " + file.string() + " contains no CURVE key",
                    "copy keys/server.pub from rolld's state directory to this file");
    return key;
}

Result<CurveKeys> load_or_make_curve_keys(const std::filesystem::path& directory,
                                          const std::string& name,
                                          const std::filesystem::path& authorized) {
    auto keys = load_curve_keys(directory, name);
    if (keys && !path_exists(directory / (name + ".pub")))
        ROLL_TRY_VOID(publish(keys->public_key, directory, name, authorized));
    if (keys || keys.error().code != ErrorCode::NotFound) return keys;
    return make_pair(directory, name, authorized);
}

std::map<std::string, std::string> read_authorized(const std::filesystem::path& directory) {
    std::map<std::string, std::string> names;
    std::error_code error;
    for (auto file = std::filesystem::directory_iterator(directory, error);
         !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
        if (file->path().extension() != ".pub") continue;
        if (auto key = load_public_key(file->path())) names[*key] = file->path().stem().string();
    }
    return names;
}

}  // namespace roll::io
