#include "common/spec/staged_files.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "common/spec/features.hpp"

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

std::vector<Problem> check_files(const Json& document) {
    std::vector<Problem> problems;
    std::set<std::string> names;
    const Json files = document.value("files", Json::array());
    const std::string workdir = document.value("workdir", "");
    if (workdir.starts_with(kFilesDirectory) && files.empty())
        problems.push_back(
            {"workdir",
             fmt::format("is {}, but the job has no `files`, so this directory does not exist",
                         workdir)});
    for (const char* key : {"stdout", "stderr"})
        if (workdir.starts_with(kFilesDirectory) && document.contains(key) &&
            !document[key].get<std::string>().starts_with('/'))
            problems.push_back({key, fmt::format("is {}, a path in a `workdir` that is removed "
                                                 "after the job; give an absolute path",
                                                 document[key].get<std::string>())});
    if (files.size() > kFilesMax)
        return {
            {"files", fmt::format("has {} files; allowed: at most {}", files.size(), kFilesMax)}};
    for (std::size_t i = 0; i < files.size(); ++i) {
        const std::string key = fmt::format("files[{}]", i);
        if (files[i].is_string()) {
            problems.push_back({key, fmt::format("is the path {}; only job files for rollctl may "
                                                 "contain paths, and other clients send {{name, "
                                                 "bytes, pieces}} (docs/web.md)",
                                                 files[i].get<std::string>())});
            continue;
        }
        const auto name = files[i]["name"].get<std::string>();
        const auto bytes = files[i]["bytes"].get<std::uint64_t>();
        const std::size_t pieces = files[i]["pieces"].size();
        if (const std::string why = wrong_file_name(name); !why.empty())
            problems.push_back({key + ".name", why});
        if (!names.insert(name).second)
            problems.push_back({key + ".name", fmt::format("is {}, the name of an earlier file; "
                                                           "give each file its own name",
                                                           name)});
        if (bytes > pieces * kPieceBytes || (bytes == 0) != (pieces == 0))
            problems.push_back({key + ".bytes", fmt::format("is {}, which cannot be the size of {} "
                                                            "pieces with 1 to {} bytes each",
                                                            bytes, pieces, kPieceBytes)});
    }
    for (const std::string& name : names) {
        const auto below = names.lower_bound(name + "/");
        if (below != names.end() && below->starts_with(name + "/"))
            problems.push_back({"files", fmt::format("has both {} and {}; a name cannot be a file "
                                                     "and a directory",
                                                     name, *below)});
    }
    return problems;
}

}  // namespace roll::spec
