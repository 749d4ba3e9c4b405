#include <set>
#include <string>

#include <fmt/format.h>

#include "common/spec/check/rules.hpp"
#include "common/spec/job/staged_files.hpp"
#include "common/spec/schema/placeholders.hpp"

namespace roll::spec {

std::vector<Problem> check_files(const Json& document) {
    std::vector<Problem> problems;
    std::set<std::string> names;
    const Json files = document.value("files", Json::array());
    const std::string workdir = document.value("workdir", "");
    if (workdir.starts_with(kFilesDirectory) && files.empty())
        problems.push_back(
            {"workdir",
             fmt::format("is {}, a directory that only jobs with `files` have; set `files`, or "
                         "another `workdir`",
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
