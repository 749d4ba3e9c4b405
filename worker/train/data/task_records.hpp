// The records of a task's data set, from the files that the task names or from a data set of the
// HuggingFace Hub in HuggingFace's cache.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::train {

// Returns an InvalidArgument error about a task's file.
tl::unexpected<Error> refused_task(const std::filesystem::path& file, const std::string& what);

struct TaskRecords {
    struct File {
        std::filesystem::path path;
        std::string text;
    };
    // Where a record is: its file, and the number of its line or, in a list or table, of the record
    struct Place {
        const File* file = nullptr;
        std::size_t number = 0;
    };
    std::deque<File> files;               // a deque, so that a File is never moved
    std::vector<std::string_view> lines;  // records, as views into the texts
    std::vector<Place> places;            // one for each record

    tl::unexpected<Error> wrong(std::size_t line, const Error& error) const;
};

// Reads the records of a split. `file` is the task's file; the paths in it are relative to its
// directory.
Result<std::unique_ptr<TaskRecords>> read_task_records(const Json& task, const std::string& split,
                                                       const std::filesystem::path& file);

}  // namespace roll::train
