#include "cli/foreign/hub.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "common/files.hpp"
#include "common/hub/dataset.hpp"
#include "common/hub_cache.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

using Pointer = Json::json_pointer;

// Keys whose value names the directory of a model
constexpr const char* kModelKeys[] = {"/model/from", "/tokenizer", "/objective/reference"};
constexpr const char* kDataKeys[] = {"/data/train", "/data/valid"};

bool exists(const std::string& base, const std::string& path) {
    return path_exists(fs::path(base) / path);
}

// Returns the data files of a directory, sorted by path. If the paths of some data files contain
// the word "train", returns only these files. Returns .parquet files only if there are no other
// data files, because a data set may have its rows both as .parquet and as text.
std::vector<std::string> data_files(const fs::path& directory) {
    std::vector<std::string> texts, tables;
    std::error_code error;
    for (auto at = fs::recursive_directory_iterator(directory, error);
         at != fs::recursive_directory_iterator(); at.increment(error)) {
        if (error) break;
        const fs::path& path = at->path();
        const fs::path kind = path.extension();
        if (kind == ".parquet") tables.push_back(path);
        const bool list = kind == ".json" && path.stem() != "dataset_infos";
        if (list || kind == ".jsonl" || kind == ".txt") texts.push_back(path);
    }
    const auto trains = [&](const std::string& path) {
        return fs::path(path).lexically_relative(directory).native().find("train") !=
               std::string::npos;
    };
    // A text file may be a license or a description instead of data. If only tables have "train" in
    // their paths, use the tables.
    const bool only_tables =
        std::ranges::none_of(texts, trains) && std::ranges::any_of(tables, trains);
    std::vector<std::string>& found = texts.empty() || only_tables ? tables : texts;
    if (std::ranges::any_of(found, trains)) std::erase_if(found, std::not_fn(trains));
    std::ranges::sort(found);
    return found;
}

// Returns the training files of one configuration of a data set.
Result<std::vector<std::string>> files_of_configuration(const std::string& set,
                                                        const std::string& configuration,
                                                        const std::vector<std::string>& known) {
    const auto found = hub::split_files(
        set, configuration, "train",
        {.name = "the data set", .config = "its configuration", .file = "name this file instead"});
    if (!found && found.error().code == ErrorCode::InvalidArgument && !known.empty())
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("the data set {0} has the configurations {1}; append one of them "
                                "to the name, such as {0}:{2}",
                                set, fmt::join(known, ", "), known.front()));
    if (!found) return tl::unexpected(found.error());
    std::vector<std::string> files(found->begin(), found->end());
    // A data set may have its rows both as .parquet and as text; then read only the text.
    const auto is_table = [](const std::string& file) { return file.ends_with(".parquet"); };
    if (!std::ranges::all_of(files, is_table)) std::erase_if(files, is_table);
    return files;
}

// Returns the cached files of a data set of the Hub; an empty list if the cache does not have them.
// If `text` is OWNER/NAME/FILE, returns this file. If `text` is OWNER/NAME or
// OWNER/NAME:CONFIGURATION, returns the training files, but only if `whole` is true, as for
// data.train.
Result<std::vector<std::string>> cached_files(const std::string& text, bool whole) {
    const std::string name = without_configuration(text);
    if (hub_name_parts(name) < 2) return std::vector<std::string>();
    const std::size_t end = name.find('/', name.find('/') + 1);
    const std::string set = name.substr(0, end);
    const auto snapshot = cached_snapshot(set, HubKind::Dataset);
    const bool is_file = end != std::string::npos;
    if (!snapshot || (!is_file && !whole)) return std::vector<std::string>();
    if (!is_file) {
        const std::vector<std::string> known = hub::configurations(set);
        if (name == text && known.size() < 2) return data_files(*snapshot);
        const std::string chosen = name == text ? "" : text.substr(name.size() + 1);
        return files_of_configuration(set, chosen, known);
    }
    const std::string file = *snapshot + name.substr(end);
    return exists("/", file) ? std::vector{file} : std::vector<std::string>();
}

void use_model(Json& value, const char* key, const std::string& base,
               std::vector<std::string>& notes) {
    if (!value.is_string()) return;
    const auto name = value.get<std::string>();
    if (exists(base, name)) return;
    const auto snapshot = cached_snapshot(name, HubKind::Model);
    if (!snapshot) return;
    std::string path = key + 1;
    std::ranges::replace(path, '/', '.');
    notes.push_back(fmt::format("{}: {} is {}", path, name, *snapshot));
    value = *snapshot;
}

// Replaces each name of a Hub data set in `value` by the paths of the cached files. `value` is a
// text, a list of texts or an object whose members are such values. Adds a note for each file.
Result<void> use_data(Json& value, bool whole, const std::string& base,
                      std::vector<std::string>& notes) {
    if (value.is_object())
        for (Json& one : value) ROLL_TRY_VOID(use_data(one, whole, base, notes));
    if (!value.is_string() && !value.is_array()) return {};
    Json files = Json::array();
    bool replaced = false;
    for (const Json& one : value.is_array() ? value : Json::array({value})) {
        const auto name = one.is_string() ? one.get<std::string>() : std::string();
        std::vector<std::string> found;
        if (!exists(base, name)) {
            ROLL_TRY(found, cached_files(name, whole));
        }
        for (const std::string& file : found) {
            notes.push_back(
                fmt::format("data: Roll reads the file {} of the data set {}", file, name));
            files.push_back(file);
        }
        if (found.empty()) files.push_back(one);
        replaced = replaced || !found.empty();
    }
    if (replaced) value = std::move(files);
    return {};
}

// Returns the `hf download` command in a comment of a job file that writes to the path `name`;
// empty if there is none.
std::string command_in_comment(const std::string& text, const std::string& name) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t begin = line.find("hf download ");
        if (line.starts_with('#') && begin != std::string::npos && line.ends_with("/" + name))
            return line.substr(begin);
    }
    return "";
}

}  // namespace

Result<std::vector<std::string>> hub_files(const std::string& name) {
    return cached_files(name, true);
}

std::string without_configuration(const std::string& name) {
    const std::string set = name.substr(0, name.find(':'));
    return hub_name_parts(set) == 2 ? set : name;
}

std::string download_of(const std::string& name, const std::string& base, HubKind kind) {
    // If the first folder of the name exists here, or is a usual folder for models or data, the
    // name is more likely a path than a name of the Hub. A name such as FOLDER/FILE.txt is also
    // more likely a path.
    static const std::set<std::string> kFolders{"models", "data", "datasets"};
    const std::ptrdiff_t parts = hub_name_parts(name);
    const std::string folder = name.substr(0, name.find('/'));
    if (parts < 2 || kFolders.contains(folder) || exists(base, folder)) return "";
    static const std::set<std::string> kFiles{".yaml",  ".yml", ".toml",   ".json",
                                              ".jsonl", ".txt", ".parquet"};
    if (parts == 2 && kFiles.contains(fs::path(name).extension())) return "";
    const std::size_t end = name.find('/', name.find('/') + 1);
    const bool data = kind == HubKind::Dataset;
    if (!data && end != std::string::npos) return "";
    return fmt::format("hf download {}{}", data ? "--repo-type dataset " : "", name.substr(0, end));
}

Result<void> use_hub_cache(Json& document, const std::string& base,
                           std::vector<std::string>& notes) {
    if (!document.is_object()) return {};
    for (const char* const key : kModelKeys)
        if (const Pointer at(key); document.contains(at)) use_model(document[at], key, base, notes);
    for (const char* const key : kDataKeys)
        if (const Pointer at(key); document.contains(at))
            ROLL_TRY_VOID(use_data(document[at], key == kDataKeys[0], base, notes));
    if (const auto then = document.find("then"); then != document.end() && then->is_array())
        for (Json& job : *then) ROLL_TRY_VOID(use_hub_cache(job, base, notes));
    return {};
}

void add_download(spec::Problem& problem, const Json& document, const std::string& base,
                  const std::string& text) {
    if (!problem.message.ends_with("which does not exist")) return;
    std::string path = "/" + problem.path;
    for (char& c : path)
        if (c == '.' || c == '[') c = '/';
    std::erase(path, ']');
    const Pointer at(path);
    if (!document.contains(at) || !document[at].is_string()) return;
    const std::string name = without_configuration(document[at].get<std::string>());
    if (const std::string told = command_in_comment(text, name); !told.empty()) {
        problem.message += "; the command in the file's comment: " + told;
        return;
    }
    const bool data = problem.path.find("data.") != std::string::npos;
    const std::string command = download_of(name, base, data ? HubKind::Dataset : HubKind::Model);
    if (command.empty()) return;
    const std::string whole = name.substr(0, name.find('/', name.find('/') + 1));
    problem.message += fmt::format("; to use {} of the HuggingFace Hub, run: {}", whole, command);
}

}  // namespace roll::cli
