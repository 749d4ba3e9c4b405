#include "common/spec/schema/string_format.hpp"

#include <array>
#include <map>

#include <boost/regex.hpp>

#include "common/pattern.hpp"
#include "common/spec/schema/array.hpp"
#include "common/spec/schema/cron.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::spec {
namespace {

struct Format {
    std::string_view name;
    std::string_view words;
    bool (*accepts)(std::string_view text);
};

constexpr std::array kFormats = {
    Format{"duration", "a duration such as 90s, 1h 30m, 1-12:00:00 or HH:MM:SS",
           [](std::string_view text) { return parse_duration(text).has_value(); }},
    Format{"time", "a time such as 2026-11-22T08:00:00Z or 2026-11-22T08:00+01:00",
           [](std::string_view text) { return parse_instant(text).has_value(); }},
    Format{"array",
           "at most 10000 indices such as 0-15, 1,4-9 or 0-100:20, and %N to run at most N at once",
           [](std::string_view text) { return parse_array(text).has_value(); }},
    Format{"cron", "minute hour day month weekday, e.g. 30 3 * * 1-5; @hourly, @daily or @weekly",
           [](std::string_view text) { return parse_cron(text).has_value(); }},
    Format{"size", "a size such as 512MiB, 4G, 5GB or \"0\", in quotes if it has no unit",
           [](std::string_view text) { return text == "0" || parse_size(text).has_value(); }},
    Format{"hang", "auto, never, or a duration such as 10m",
           [](std::string_view text) {
               return text == "auto" || text == "never" || parse_duration(text).has_value();
           }},
    Format{"regex", "a regular expression in Perl's syntax, such as CUDA error.*ECC",
           [](std::string_view text) { return Pattern::make(text).has_value(); }},
};

const Format* format_named(std::string_view name) {
    for (const Format& format : kFormats) {
        if (format.name == name) return &format;
    }
    return nullptr;
}

// Returns the compiled pattern. Keeps compiled patterns, because compiling them takes longer than
// the rest of a job's check.
const boost::regex& compiled(const std::string& pattern) {
    static thread_local std::map<std::string, boost::regex> known;
    const auto found = known.find(pattern);
    return found != known.end() ? found->second : known.emplace(pattern, pattern).first->second;
}

}  // namespace

std::string_view format_words(std::string_view format) {
    const Format* found = format_named(format);
    return found == nullptr ? "" : found->words;
}

bool has_format(std::string_view format, std::string_view text) {
    const Format* found = format_named(format);
    return found == nullptr || found->accepts(text);
}

bool has_pattern(const std::string& pattern, const std::string& text) {
    return boost::regex_search(text, compiled(pattern), boost::match_single_line);
}

}  // namespace roll::spec
