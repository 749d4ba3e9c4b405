#include "common/spec/schema/pyxis.hpp"

#include <filesystem>
#include <vector>

#include "common/split.hpp"

namespace roll::spec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kImages = "[REGISTRY#]IMAGE[:TAG], or the path of a squashfs file";
constexpr const char* kMounts =
    "SRC:DST, SRC:DST:ro and SRC:DST:rw with paths, separated by commas; binds of containers have "
    "no other flags, and Roll mounts no tmpfs";
// Registry of an image that names none
constexpr const char* kRegistry = "docker.io";

// Like pyxis, takes a text for a path if it starts with a slash or a dot.
bool names_path(const std::string& text) { return text.starts_with('/') || text.starts_with('.'); }

Result<std::string> bind_of_mount(const std::string& mount) {
    const std::vector<std::string> parts = split_at(mount, ':');
    const std::string& source = parts[0];
    const std::string& target = parts.size() > 1 ? parts[1] : source;
    if (parts.size() > 3 || !names_path(source) || !names_path(target))
        return fail(ErrorCode::InvalidArgument, kMounts);
    const std::string flags = parts.size() > 2 ? parts[2] : "";
    for (const std::string& flag : split_at(flags, '+'))
        if (flag != "ro" && flag != "rw" && !flags.empty())
            return fail(ErrorCode::InvalidArgument, kMounts);
    const std::string read_only = flags.find("ro") == std::string::npos ? "" : ":ro";
    // Like Enroot, resolve a relative target from the root directory of the container.
    return fs::absolute(source).lexically_normal().string() + ":" +
           ("/" / fs::path(target)).lexically_normal().string() + read_only;
}

}  // namespace

Result<Json> pyxis_image(const std::string& value) {
    if (names_path(value))
        return Json{{"image", fs::absolute(value).lexically_normal().string()},
                    {"runtime", "enroot"}};
    constexpr std::string_view kScheme = "docker://";
    const std::string image = value.starts_with(kScheme) ? value.substr(kScheme.size()) : value;
    const std::size_t at = image.find('@');
    if (at != std::string::npos && !image.substr(at).starts_with("@sha256:"))
        return fail(
            ErrorCode::InvalidArgument,
            std::string(kImages) + "; instead of USER@, log in to the registry on the nodes");
    const std::size_t mark = image.find('#');
    const std::string registry =
        mark == std::string::npos ? std::string(kRegistry) : image.substr(0, mark);
    std::string name = mark == std::string::npos ? image : image.substr(mark + 1);
    if (registry.empty() || name.empty() || name.find("://") != std::string::npos)
        return fail(ErrorCode::InvalidArgument, kImages);
    if (registry == kRegistry && name.find('/') == std::string::npos) name = "library/" + name;
    return Json{{"image", registry + "/" + name}};
}

Result<Json> pyxis_mounts(const std::string& value) {
    Json binds = Json::array();
    for (const std::string& mount : split_at(value, ',')) {
        ROLL_TRY(std::string bind, bind_of_mount(mount));
        binds.push_back(std::move(bind));
    }
    return binds;
}

}  // namespace roll::spec
