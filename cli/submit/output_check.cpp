#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/submit/checks.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

// Number of directory levels that may be missing. By default, the output directory is runs/NAME-ID
// next to the job file. Both `runs` and NAME-ID may be missing.
constexpr int kLevelsUp = 2;

std::string user_text(uid_t uid) {
    const passwd* const entry = ::getpwuid(uid);
    return entry == nullptr ? fmt::format("uid {}", uid)
                            : fmt::format("{} (uid {})", entry->pw_name, uid);
}

// Returns whether the user is in the group; nullopt if this machine does not know the user.
std::optional<bool> is_in_group(uid_t uid, gid_t group) {
    const passwd* const entry = ::getpwuid(uid);
    if (entry == nullptr) return std::nullopt;
    int count = 1024;
    std::vector<gid_t> groups(static_cast<std::size_t>(count));
    if (::getgrouplist(entry->pw_name, entry->pw_gid, groups.data(), &count) < 0)
        return std::nullopt;
    groups.resize(static_cast<std::size_t>(count));
    return std::ranges::find(groups, group) != groups.end();
}

bool has_acl(const fs::path& path) {
    return ::getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) > 0 ||
           ::getxattr(path.c_str(), "system.nfs4_acl", nullptr, 0) > 0;
}

// Returns whether the user may write to the directory. If the user is not the caller, the
// directory's mode bits decide. For root and for directories with an ACL, the mode bits do not
// decide, so the function returns true.
bool may_write(const fs::path& directory, const struct stat& status, uid_t uid) {
    if (uid == ::geteuid())
        return ::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
    if (uid == 0 || has_acl(directory)) return true;
    if (status.st_uid == uid) return (status.st_mode & 0300U) == 0300U;
    const bool group = (status.st_mode & 0030U) == 0030U;
    const bool others = (status.st_mode & 0003U) == 0003U;
    const auto in_group = is_in_group(uid, status.st_gid);
    return in_group ? (*in_group ? group : others) : group || others;
}

// Returns the reason why the user cannot write to `output`; nullopt if there is none.
std::optional<std::string> obstacle(const std::string& output, uid_t uid) {
    fs::path place(output);
    struct stat status {};
    for (int level = 0; ::stat(place.c_str(), &status) != 0; ++level) {
        place = place.parent_path();
        if (level == kLevelsUp || !place.has_relative_path()) return std::nullopt;
    }
    if (!S_ISDIR(status.st_mode)) return fmt::format("{} is not a directory", place.string());
    struct statvfs volume {};
    if (::statvfs(place.c_str(), &volume) == 0 && (volume.f_flag & ST_RDONLY) != 0)
        return fmt::format("{} is on a read-only file system", place.string());
    if (may_write(place, status, uid)) return std::nullopt;
    return fmt::format(
        "rolld runs jobs as {}, who may not write to {} (owner {}, mode "
        "{:04o})",
        user_text(uid), place.string(), user_text(status.st_uid), status.st_mode & 07777U);
}

Result<void> check_output(const spec::JobSpec& spec, uid_t uid) {
    const auto why = spec.output.empty() ? std::nullopt : obstacle(spec.output, uid);
    if (!why) return {};
    return fail(ErrorCode::Refused,
                fmt::format("job {} cannot write to its output directory {}: {}", spec.name,
                            spec.output, *why),
                "chmod or chown that directory, or use another: --set output=DIR");
}

}  // namespace

Result<void> check_outputs(const std::vector<spec::JobSpec>& specs, uid_t uid) {
    for (const spec::JobSpec& spec : specs) {
        ROLL_TRY_VOID(check_output(spec, uid));
        for (const spec::JobSpec& next : spec.then) ROLL_TRY_VOID(check_output(next, uid));
    }
    return {};
}

}  // namespace roll::cli
