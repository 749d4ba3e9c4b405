// Job arrays such as "0-15%4".
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "common/replace.hpp"
#include "common/spec/job.hpp"
#include "common/spec/sweep.hpp"

namespace roll::spec {
namespace {

constexpr int kIndexMax = 1'000'000'000;

// Removes a leading number from `text` and returns the number.
std::optional<int> take_number(std::string_view& text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 0 || value > kIndexMax) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

bool take_char(std::string_view& text, char c) {
    if (!text.starts_with(c)) return false;
    text.remove_prefix(1);
    return true;
}

// Appends the indices of "4", "4-9" or "4-9:2". Returns false if the text is malformed or has too
// many indices.
bool add_range(std::string_view part, std::vector<int>& all) {
    const auto first = take_number(part);
    if (!first) return false;
    int last = *first;
    int step = 1;
    if (take_char(part, '-')) {
        const auto read = take_number(part);
        if (!read || *read < *first) return false;
        last = *read;
        if (take_char(part, ':')) {
            const auto stride = take_number(part);
            if (!stride || *stride == 0) return false;
            step = *stride;
        }
    }
    if (!part.empty() || (last - *first) / step >= kArrayTasksMax) return false;
    for (std::int64_t i = *first; i <= last; i += step) all.push_back(static_cast<int>(i));
    return all.size() <= 2 * static_cast<std::size_t>(kArrayTasksMax);
}

// Returns the end of the JSON string whose first character is at `at`.
std::size_t end_of_string(std::string_view text, std::size_t at) {
    while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
    return std::min(at, text.size());
}

// Replaces "{index}" in a job's document. Does not replace it in the text of a script, where
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

tl::unexpected<Error> no_array(std::string_view text) {
    return fail(
        ErrorCode::InvalidArgument,
        fmt::format("\"{}\" is not an array; allowed: at most {} indices such as 0-15, 1,4-9 or "
                    "0-100:20, and %N to run at most N tasks at once",
                    text, kArrayTasksMax));
}

}  // namespace

Result<std::vector<int>> array_indices(std::string_view text) {
    std::vector<int> all;
    std::string_view rest = text;
    for (;;) {
        const std::size_t comma = rest.find(',');
        if (!add_range(rest.substr(0, comma), all)) return no_array(text);
        if (comma == std::string_view::npos) break;
        rest.remove_prefix(comma + 1);
    }
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    if (all.size() > static_cast<std::size_t>(kArrayTasksMax)) return no_array(text);
    return all;
}

Result<Array> parse_array(std::string_view text) {
    Array array;
    const std::size_t percent = text.find('%');
    array.indices = text.substr(0, percent);
    if (percent != std::string_view::npos) {
        std::string_view limit = text.substr(percent + 1);
        const auto read = take_number(limit);
        if (!read || *read == 0 || !limit.empty()) return no_array(text);
        array.limit = *read;
    }
    if (!array_indices(array.indices)) return no_array(text);
    return array;
}

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
