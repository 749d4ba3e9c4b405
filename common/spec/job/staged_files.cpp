#include "common/spec/job/staged_files.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "common/spec/job/features.hpp"

namespace roll::spec {

bool is_sha256(std::string_view text) {
    return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string wrong_file_name(const std::string& name) {
    constexpr std::size_t kLongest = 255;
    if (name.empty() || name.size() > kLongest)
        return fmt::format("has {} bytes; allowed: 1 to {}", name.size(), kLongest);
    if (std::ranges::any_of(name, [](unsigned char c) { return c < ' ' || c == 0x7f; }))
        return "has control characters; allowed: printable characters";
    const std::filesystem::path path(name);
    const bool leaves = std::ranges::any_of(path, [](const auto& part) { return part == ".."; });
    if (path.is_absolute() || leaves || path.lexically_normal().native() != name ||
        !path.has_filename() || path.filename() == ".")
        return fmt::format(
            "is {}; allowed: a relative path without `.` and `..`, which does not end with a slash",
            name);
    return "";
}

Json to_json(const StagedFile& file) {
    Json json = {{"name", file.name}, {"bytes", file.bytes}, {"pieces", file.pieces}};
    if (file.executable) json["executable"] = true;
    return json;
}

bool has_files(const JobSpec& spec) {
    return std::ranges::find(spec.needs, kFiles) != spec.needs.end();
}

std::vector<StagedFile> staged_files(const Json& document) {
    std::vector<StagedFile> files;
    if (!document.is_object()) return files;
    for (const Json& one : document.value("files", Json::array()))
        if (one.is_object())
            files.push_back({.name = one.value("name", ""),
                             .bytes = one.value("bytes", std::uint64_t{0}),
                             .executable = one.value("executable", false),
                             .pieces = one.value("pieces", std::vector<std::string>{})});
    return files;
}

}  // namespace roll::spec
