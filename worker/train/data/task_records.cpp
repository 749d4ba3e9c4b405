#include "worker/train/data/task_records.hpp"

#include <optional>

#include "common/files.hpp"
#include "common/hub/dataset.hpp"
#include "common/json_records.hpp"
#include "worker/train/data/corpus/parquet.hpp"
#include "worker/train/data/scratch_tokens.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// Returns the files of dataset_kwargs.data_files. A path that is not absolute is relative to the
// directory of the task.
Result<std::vector<fs::path>> named_files(const Json& task, const std::string& split,
                                          const fs::path& file) {
    const Json::json_pointer at("/dataset_kwargs/data_files");
    Json files = task.contains(at) ? task[at] : Json();
    if (files.is_object()) files = files.value(split, Json());
    if (files.is_array() && files.size() == 1) files = files[0];
    if (!files.is_string())
        return refused_task(file, "dataset_kwargs.data_files gives no file for the split " + split +
                                      "; allowed: the path of a .jsonl, .json or .parquet file");
    return std::vector{fs::absolute(file).parent_path() / files.get<std::string>()};
}

Result<std::vector<fs::path>> dataset_files(const Json& task, const std::string& split,
                                            const fs::path& file) {
    const Json name = task.value("dataset_path", Json());
    if (name == "json" || name == "parquet") return named_files(task, split, file);
    if (!name.is_string())
        return refused_task(file, "dataset_path is " + name.dump() +
                                      "; allowed: json or parquet, with the file in "
                                      "dataset_kwargs.data_files, or the name of a data set of "
                                      "the HuggingFace Hub");
    const Json given = task.value("dataset_kwargs", Json::object());
    for (const auto& [key, value] : given.items())
        if (key != "trust_remote_code")
            return refused_task(file, "dataset_kwargs." + key +
                                          " is not supported with a data set of the HuggingFace "
                                          "Hub");
    auto files =
        hub::split_files(name.get<std::string>(), task.value("dataset_name", std::string()), split);
    if (!files) return fail(files.error().code, file.string() + ": " + files.error().message);
    return files;
}

// Appends the records of a file. roll-parquet writes the rows of a table as lines.
Result<void> add_file(const fs::path& path, TaskRecords& records) {
    fs::path lines = path;
    std::optional<Scratch> scratch;
    if (data::is_parquet(path)) {
        scratch.emplace();
        ROLL_TRY(const auto made,
                 data::lines_of_parquet(path, scratch->path,
                                        [](const data::PrepareProgress&) { return true; }));
        lines = *made;
    }
    ROLL_TRY(std::string content, read_file(lines));
    const TaskRecords::File& file = records.files.emplace_back(path, std::move(content));
    const std::string_view text = file.text;
    const bool list = lines.extension() == ".json" && is_json_list(text);
    std::size_t number = 0;
    for (std::size_t at = 0; at < text.size();) {
        const JsonRecord record = record_at(text, list, at);
        at = record.end;
        ++number;
        if (record.text.empty()) continue;
        records.lines.push_back(record.text);
        records.places.push_back({&file, number});
    }
    return {};
}

}  // namespace

tl::unexpected<Error> refused_task(const fs::path& file, const std::string& what) {
    return fail(ErrorCode::InvalidArgument, file.string() + ": " + what);
}

tl::unexpected<Error> TaskRecords::wrong(std::size_t line, const Error& error) const {
    const auto& [file, number] = places[line];
    return fail(error.code,
                file->path.string() + ":" + std::to_string(number) + ": " + error.message);
}

Result<std::unique_ptr<TaskRecords>> read_task_records(const Json& task, const std::string& split,
                                                       const fs::path& file) {
    ROLL_TRY(const std::vector<fs::path> files, dataset_files(task, split, file));
    auto records = std::make_unique<TaskRecords>();
    for (const fs::path& one : files) ROLL_TRY_VOID(add_file(one, *records));
    if (records->lines.empty()) return refused_task(files[0], "has no record");
    return records;
}

}  // namespace roll::train
