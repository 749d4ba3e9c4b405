#include "common/spec/job/array_tasks.hpp"

#include <algorithm>

#include "common/replace.hpp"
#include "common/spec/job/sweep.hpp"

namespace roll::spec {
namespace {

// Returns the end of the JSON string whose first character is at `at`.
std::size_t end_of_string(std::string_view text, std::size_t at) {
    while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
    return std::min(at, text.size());
}

// Replaces "{index}" in a job's document. Does not replace "{index}" in the text of a script, where
// ${index} is a variable of the shell.
std::string replaced_outside_scripts(std::string_view text, const std::string& number) {
    constexpr std::string_view kScript = R"("script":")";
    std::string result;
    while (true) {
        const std::size_t key = text.find(kScript);
        if (key == std::string_view::npos) return result + replaced(text, "{index}", number);
        const std::size_t end = end_of_string(text, key + kScript.size());
        result += replaced(text.substr(0, key), "{index}", number);
        result += text.substr(key, end - key);
        text.remove_prefix(end);
    }
}

}  // namespace

JobSpec array_task(const JobSpec& array, int index) {
    JobSpec task = array;
    task.array->index = index;
    const std::string number = std::to_string(index);
    task.output = replaced(array.output, "{index}", number);
    task.document = replaced_outside_scripts(array.document.text(), number);
    return task;
}

std::vector<JobSpec> array_tasks(const JobSpec& array, const std::vector<int>& indices) {
    const auto trials = Trials::of(array.document.text());
    std::vector<JobSpec> tasks;
    for (std::size_t i = 0; i < indices.size(); ++i) {
        JobSpec copy = array;
        if (trials && i < trials->count()) copy.document = trials->document(i);
        tasks.push_back(array_task(copy, indices[i]));
    }
    return tasks;
}

}  // namespace roll::spec
