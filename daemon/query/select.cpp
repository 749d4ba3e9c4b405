#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fnmatch.h>

#include "common/number.hpp"
#include "common/spec/schema/array.hpp"
#include "daemon/query/query.hpp"

namespace roll::query {
namespace {

// Maximum number of jobs that one selector may look at, because it is evaluated within one turn. A
// name is compared with every job, and a range looks at each job in the range.
constexpr std::size_t kLooksMax = 1'000'000;

// Adds the existing jobs from `first` to `last`. Fails with NotFound if there is none.
Result<void> add_range(const core::State& state, std::uint64_t first, std::uint64_t last,
                       std::set<JobId>& ids, std::size_t& looks) {
    if (last < first)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("the range {}-{} is empty; write the lower id first, as in 3-9",
                                first, last));
    auto at = state.jobs.lower_bound(JobId{first});
    const bool any = at != state.jobs.end() && at->first <= JobId{last};
    if (!any) {
        return fail(ErrorCode::NotFound,
                    first == last ? fmt::format("there is no job {}", first)
                                  : fmt::format("there is no job from {} to {}", first, last),
                    "rollctl jobs -a");
    }
    for (; at != state.jobs.end() && at->first <= JobId{last}; ++at, ++looks)
        ids.insert(ids.end(), at->first);
    return {};
}

// Returns false for jobs that rolld queued itself: automatic exports and copies of cron
// jobs. A job that a person submitted has a client's key, is in an array, or follows in a
// chain.
bool submitted_by_person(const core::Job& job) {
    return !job.key.empty() || job.array.value != 0 || !job.spec.after.empty();
}

// Adds the newest job that a person submitted. Fails with NotFound if there is none.
Result<void> add_last(const core::State& state, std::set<JobId>& ids, std::size_t& looks) {
    for (auto at = state.jobs.rbegin(); at != state.jobs.rend(); ++at, ++looks) {
        if (!submitted_by_person(at->second)) continue;
        ids.insert(at->first);
        return {};
    }
    return fail(ErrorCode::NotFound, "there is no job yet", "rollctl submit FILE");
}

Result<void> add_matches(const core::State& state, const std::string& word, const std::string& user,
                         std::set<JobId>& ids, std::size_t& looks) {
    looks += state.jobs.size();
    bool any = word == "all" || word == "@me";
    for (const auto& [id, job] : state.jobs) {
        const bool matches = word == "all" || (word == "@me" && job.user == user) ||
                             ::fnmatch(word.c_str(), job.spec.name.c_str(), 0) == 0;
        if (matches) ids.insert(ids.end(), id);
        any = any || matches;
    }
    if (!any) return fail(ErrorCode::NotFound, "no job is named " + word, "rollctl jobs -a");
    return {};
}

// Adds tasks of an array, which `word` names as Slurm does ("12_3", "12_[0-2,5]") or as `rollctl
// jobs` prints them ("12[0-2,5]"). Returns false if `word` names no array: the word may be the name
// of a job. Fails with NotFound if the array exists but has none of these tasks.
Result<bool> add_tasks(const core::State& state, std::string_view word, std::set<JobId>& ids,
                       std::size_t& looks) {
    const std::size_t end = word.find_first_not_of("0123456789");
    if (end == 0 || end == std::string_view::npos) return false;
    const auto number = parse_number<std::uint64_t>(word.substr(0, end));
    const auto array = number ? state.index.arrays.find(JobId{*number}) : state.index.arrays.end();
    if (array == state.index.arrays.end()) return false;
    std::string_view tasks = word.substr(end);
    const bool bar = tasks.front() == '_';
    if (bar) tasks.remove_prefix(1);
    const bool brackets = tasks.size() > 2 && tasks.front() == '[' && tasks.back() == ']';
    if (brackets) tasks = tasks.substr(1, tasks.size() - 2);
    const auto wanted = spec::array_indices(tasks);
    if ((!bar && !brackets) || !wanted) return false;
    bool any = false;
    auto at = state.jobs.lower_bound(array->first);
    for (; at != state.jobs.end() && at->second.array == array->first; ++at, ++looks) {
        if (!std::ranges::binary_search(*wanted, at->second.spec.array->index)) continue;
        ids.insert(at->first);
        any = true;
    }
    if (any) return true;
    return fail(ErrorCode::NotFound, fmt::format("array {} has no task {}", *number, tasks),
                fmt::format("rollctl jobs -a {}", *number));
}

Result<void> add(const core::State& state, const std::string& word, const std::string& user,
                 std::set<JobId>& ids, std::size_t& looks) {
    if (word == "last") return add_last(state, ids, looks);
    if (const auto id = parse_number<std::uint64_t>(word))
        return add_range(state, *id, *id, ids, looks);
    const auto dash = word.find('-');
    if (dash != std::string::npos) {
        const auto first = parse_number<std::uint64_t>(std::string_view(word).substr(0, dash));
        const auto last = parse_number<std::uint64_t>(std::string_view(word).substr(dash + 1));
        if (first && last) return add_range(state, *first, *last, ids, looks);
    }
    ROLL_TRY(const bool tasks, add_tasks(state, word, ids, looks));
    return tasks ? Result<void>() : add_matches(state, word, user, ids, looks);
}

// Returns the position of the comma that ends the word at `begin`. A comma in brackets, as in
// 12_[0,2], belongs to the word.
std::size_t end_of_word(const std::string& selector, std::size_t begin) {
    bool in_brackets = false;
    for (std::size_t at = begin; at < selector.size(); ++at) {
        in_brackets = selector[at] == '[' || (in_brackets && selector[at] != ']');
        if (selector[at] == ',' && !in_brackets) return at;
    }
    return selector.size();
}

}  // namespace

Result<std::vector<JobId>> select(const core::State& state, const std::string& selector,
                                  const std::string& user) {
    std::set<JobId> ids;
    std::size_t looks = 0;
    std::size_t begin = 0;
    while (begin <= selector.size()) {
        const std::size_t comma = end_of_word(selector, begin);
        const std::string word = selector.substr(begin, comma - begin);
        if (word.empty()) {
            return fail(ErrorCode::InvalidArgument, "\"" + selector + "\" selects nothing",
                        "use ids (7, 3-9, 1,4 or 12_3), `last`, `all`, `@me` or a name with "
                        "wildcards (* and ?)");
        }
        if (looks > kLooksMax) {
            return fail(
                ErrorCode::InvalidArgument, "the selector would look up more than 1,000,000 jobs",
                "use fewer words in the selector; replace lists of ids by ranges such as 3-9");
        }
        ROLL_TRY_VOID(add(state, word, user, ids, looks));
        begin = comma + 1;
    }
    return std::vector<JobId>(ids.begin(), ids.end());
}

int priority_before(const core::State& state, const std::vector<JobId>& ids) {
    constexpr int kHighest = std::numeric_limits<int>::max();
    int priority = std::numeric_limits<int>::min();
    for (const JobId id : ids) priority = std::max(priority, state.jobs.at(id).spec.priority);
    for (const JobId id : state.index.open) {
        const core::Job& job = state.jobs.at(id);
        if (job.phase != core::JobPhase::Queued || std::ranges::binary_search(ids, id)) continue;
        const int before = job.spec.priority == kHighest ? kHighest : job.spec.priority + 1;
        priority = std::max(priority, before);
    }
    return priority;
}

}  // namespace roll::query
