#include "common/hub/dataset.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include <fnmatch.h>

#include "common/files.hpp"
#include "common/hub_cache.hpp"
#include "common/json.hpp"
#include "common/yaml/yaml.hpp"

namespace roll::hub {
namespace {

namespace fs = std::filesystem;

// Words in paths that stand for a split
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kSplitWords{
    {{"train", "train"},
     {"train", "training"},
     {"validation", "validation"},
     {"validation", "valid"},
     {"validation", "val"},
     {"validation", "dev"},
     {"test", "test"},
     {"test", "testing"},
     {"test", "eval"},
     {"test", "evaluation"}}};

// Returns the sorted paths of the data files below `snapshot`, relative to `snapshot`.
std::vector<std::string> files_below(const fs::path& snapshot) {
    std::vector<std::string> files;
    std::error_code error;
    for (auto at = fs::recursive_directory_iterator(snapshot, error);
         at != fs::recursive_directory_iterator(); at.increment(error)) {
        if (error) break;
        const fs::path kind = at->path().extension();
        const bool is_data = kind == ".parquet" || kind == ".jsonl" ||
                             (kind == ".json" && at->path().stem() != "dataset_infos");
        if (is_data) files.push_back(at->path().lexically_relative(snapshot));
    }
    std::ranges::sort(files);
    return files;
}

// Returns whether a word of the path stands for the split. A word ends at any character that is not
// a letter.
bool is_of_split(const std::string& path, const std::string& split) {
    const auto is_letter = [&](std::size_t at) {
        return at < path.size() && std::isalpha(static_cast<unsigned char>(path[at])) != 0;
    };
    const auto has = [&](std::string_view word) {
        for (std::size_t at = path.find(word); at != std::string::npos;
             at = path.find(word, at + 1))
            if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + word.size())) return true;
        return false;
    };
    return has(split) || std::ranges::any_of(kSplitWords, [&](const auto& pair) {
               return pair.first == split && has(pair.second);
           });
}

// Returns the list `configs` in the YAML at the beginning of README.md; null if there is none.
Result<Json> configs_of(const fs::path& snapshot) {
    constexpr std::string_view kFence = "---\n";
    const auto card = read_file(snapshot / "README.md");
    if (!card || !card->starts_with(kFence)) return Json();
    const std::size_t end = card->find("\n---", kFence.size());
    if (end == std::string::npos) return Json();
    ROLL_TRY(const std::vector<Json> documents,
             yaml::read(card->substr(kFence.size(), end + 1 - kFence.size()),
                        (snapshot / "README.md").string()));
    if (documents.empty() || !documents[0].is_object()) return Json();
    const Json configs = documents[0].value("configs", Json());
    const bool is_list =
        configs.is_array() && !configs.empty() && std::ranges::all_of(configs, [](const Json& one) {
            return one.is_object() && one.contains("config_name") && one["config_name"].is_string();
        });
    return is_list ? configs : Json();
}

Result<Json> choose(const Json& configs, const std::string& name, const std::string& config,
                    const Keys& keys) {
    std::vector<std::string> names;
    for (const Json& one : configs) {
        names.push_back(one["config_name"].get<std::string>());
        const bool is_default = one.value("default", Json()) == true || names.back() == "default";
        if (config.empty() ? is_default || configs.size() == 1 : names.back() == config) return one;
    }
    std::string known;
    for (const std::string& one : names) known += (known.empty() ? "" : ", ") + one;
    const std::string is = config.empty() ? "is missing" : "is \"" + config + "\"";
    return fail(ErrorCode::InvalidArgument,
                std::string(keys.config) + " " + is + "; " + name + " has: " + known);
}

// Appends `value` to `texts` if `value` is a text. If `value` is a list, appends the texts in the
// list.
void add_texts(const Json& value, std::vector<std::string>& texts) {
    if (value.is_string()) texts.push_back(value.get<std::string>());
    if (!value.is_array()) return;
    for (const Json& one : value)
        if (one.is_string()) texts.push_back(one.get<std::string>());
}

// Returns the patterns of the files that belong to the split. `files` is the value of data_files in
// a configuration. Files without a split belong to the split "train".
std::vector<std::string> patterns_of(const Json& files, const std::string& split) {
    std::vector<std::string> patterns;
    if (split == "train") add_texts(files, patterns);
    if (!files.is_array()) return patterns;
    for (const Json& one : files)
        if (one.is_object() && one.value("split", Json()) == split)
            add_texts(one.value("path", Json()), patterns);
    return patterns;
}

bool matches(const std::string& file, const std::string& pattern) {
    const bool deep = pattern.find("**") != std::string::npos;
    return ::fnmatch(pattern.c_str(), file.c_str(), deep ? 0 : FNM_PATHNAME) == 0;
}

}  // namespace

std::vector<std::string> configurations(const std::string& name) {
    std::vector<std::string> names;
    const auto snapshot = cached_snapshot(name, HubKind::Dataset);
    const Result<Json> configs = snapshot ? configs_of(*snapshot) : Result<Json>();
    if (configs)
        for (const Json& one : *configs) names.push_back(one["config_name"].get<std::string>());
    return names;
}

Result<std::vector<fs::path>> split_files(const std::string& name, const std::string& config,
                                          const std::string& split, const Keys& keys) {
    const std::string is = std::string(keys.name) + " is \"" + name + "\", which ";
    const auto snapshot = cached_snapshot(name, HubKind::Dataset);
    if (!snapshot)
        return fail(ErrorCode::NotFound, is + "is not in HuggingFace's cache " +
                                             hub_cache().string() +
                                             "; run: hf download --repo-type dataset " + name);
    std::vector<std::string> files = files_below(*snapshot);
    ROLL_TRY(const Json configs, configs_of(*snapshot));
    std::string folder = config.empty() ? "" : config + "/";
    std::vector<std::string> patterns;
    if (!configs.is_null()) {
        ROLL_TRY(const Json chosen, choose(configs, name, config, keys));
        const Json directory = chosen.value("data_dir", Json());
        folder = directory.is_string() ? directory.get<std::string>() + "/" : "";
        patterns = patterns_of(chosen.value("data_files", Json()), split);
        if (chosen.contains("data_files") && patterns.empty()) files.clear();
    }
    std::erase_if(files, [&](const std::string& file) {
        if (!file.starts_with(folder)) return true;
        const std::string rest = file.substr(folder.size());
        if (patterns.empty()) return !is_of_split(rest, split);
        return std::ranges::none_of(patterns,
                                    [&](const std::string& one) { return matches(rest, one); });
    });
    if (files.empty())
        return fail(ErrorCode::NotFound,
                    is + "has no .parquet, .jsonl or .json of the split " + split + " in " +
                        *snapshot +
                        "; write the split to a file, for example with the Python package "
                        "datasets: load_dataset(\"" +
                        name + "\", split=\"" + split + "\").to_json(\"" + split +
                        ".jsonl\"), and " + keys.file);
    std::vector<fs::path> paths;
    for (const std::string& file : files) paths.push_back(fs::path(*snapshot) / file);
    return paths;
}

}  // namespace roll::hub
