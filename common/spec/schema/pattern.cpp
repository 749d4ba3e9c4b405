#include "common/spec/schema/pattern.hpp"

#include <map>

#include <boost/regex.hpp>

namespace roll::spec {
namespace {

// Returns the compiled pattern. Keeps compiled patterns, because compiling them takes longer than
// the rest of a job's check.
const boost::regex& compiled(const std::string& pattern) {
    static thread_local std::map<std::string, boost::regex> known;
    const auto found = known.find(pattern);
    return found != known.end() ? found->second : known.emplace(pattern, pattern).first->second;
}

}  // namespace

bool has_pattern(const std::string& pattern, const std::string& text) {
    return boost::regex_search(text, compiled(pattern), boost::match_single_line);
}

}  // namespace roll::spec
