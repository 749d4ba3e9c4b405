// Makes the trials that a `sweep` section describes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "common/hash.hpp"
#include "common/spec/job/sweep.hpp"

namespace roll::spec {
namespace {

Problem too_many_trials(const std::string& path, std::size_t trials) {
    return {path, fmt::format("describes {} trials; allowed: at most {}", trials, kTrialsMax)};
}

// Returns a trial for every combination of the values. The last key changes fastest.
Json grid_trials(const Json& grid, std::vector<Problem>& problems) {
    std::size_t count = grid.empty() ? 0 : 1;
    for (const Json& values : grid) {
        count *= values.size();
        if (count <= kTrialsMax) continue;
        problems.push_back(too_many_trials("sweep.grid", count));
        return Json::array();
    }
    Json trials = Json::array();
    for (std::size_t trial = 0; trial < count; ++trial) {
        Json parameters = Json::object();
        std::size_t rest = trial;
        for (auto key = grid.rbegin(); key != grid.rend(); ++key) {
            parameters[key.key()] = (*key)[rest % key->size()];
            rest /= key->size();
        }
        trials.push_back(std::move(parameters));
    }
    return trials;
}

// Returns a number in [0, 1) that depends only on the arguments. Adding a trial or a key therefore
// does not change the numbers of other trials and keys.
double fraction(std::uint64_t seed, std::size_t trial, const std::string& key) {
    const std::uint64_t bits = hash64(fmt::format("{} {} {}", seed, trial, key));
    return static_cast<double>(bits >> 11) * 0x1p-53;
}

double four_digits(double value) {
    return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr);
}

// Returns whether `range` is [LOW, HIGH] with LOW < HIGH. If `logarithm`, LOW must also be above 0.
bool is_range(const Json& range, bool logarithm) {
    if (!range.is_array() || range.size() != 2 || !range[0].is_number() || !range[1].is_number())
        return false;
    const double low = range[0].get<double>();
    return low < range[1].get<double>() && (!logarithm || low > 0);
}

// Returns the problem of a parameter's distribution; an empty text if there is none.
std::string distribution_problem(const Json& distribution) {
    constexpr const char* kAllowed =
        "allowed: {uniform: [LOW, HIGH]}, {log_uniform: [LOW, HIGH]} with LOW > 0, or "
        "{choice: [VALUE, ...]}";
    if (distribution.size() == 1) {
        const auto only = distribution.begin();
        if (only.key() == "choice" && only->is_array() && !only->empty()) return {};
        if (only.key() == "uniform" && is_range(*only, false)) return {};
        if (only.key() == "log_uniform" && is_range(*only, true)) return {};
    }
    return fmt::format("is {}; {}", dump(distribution), kAllowed);
}

Json drawn(const Json& distribution, double fraction) {
    const auto only = distribution.begin();
    if (only.key() == "choice")
        return (*only)[static_cast<std::size_t>(fraction * static_cast<double>(only->size()))];
    const double low = (*only)[0].get<double>(), high = (*only)[1].get<double>();
    const double value = only.key() == "uniform" ? low + (high - low) * fraction
                                                 : low * std::exp(std::log(high / low) * fraction);
    return std::clamp(four_digits(value), low, high);
}

Json random_trials(const Json& random, std::vector<Problem>& problems) {
    const Json& parameters = random["parameters"];
    const std::size_t before = problems.size();
    if (parameters.empty())
        problems.push_back({"sweep.random.parameters", "is empty; give at least one key"});
    for (const auto& [key, distribution] : parameters.items()) {
        if (std::string bad = distribution_problem(distribution); !bad.empty())
            problems.push_back({"sweep.random.parameters." + key, std::move(bad)});
    }
    Json trials = Json::array();
    if (problems.size() > before) return trials;
    const auto seed = random["seed"].get<std::uint64_t>();
    for (std::size_t trial = 0; trial < random["trials"].get<std::size_t>(); ++trial) {
        Json one = Json::object();
        for (const auto& [key, distribution] : parameters.items())
            one[key] = drawn(distribution, fraction(seed, trial, key));
        trials.push_back(std::move(one));
    }
    return trials;
}

// Returns the trials that the user lists. All trials must set the same keys, so that a table of the
// trials has a value in every cell.
Json listed_trials(const Json& list, std::vector<Problem>& problems) {
    if (list.size() > kTrialsMax) {
        problems.push_back(too_many_trials("sweep.list", list.size()));
        return Json::array();
    }
    const auto keys_of = [](const Json& one) {
        std::vector<std::string> keys;
        for (const auto& [key, value] : one.items()) keys.push_back(key);
        return keys;
    };
    const std::vector<std::string> keys = keys_of(list[0]);
    if (keys.empty()) problems.push_back({"sweep.list[0]", "is empty; give at least one key"});
    for (std::size_t i = 1; i < list.size(); ++i) {
        if (keys_of(list[i]) == keys) continue;
        problems.push_back({fmt::format("sweep.list[{}]", i),
                            fmt::format("sets {}, but sweep.list[0] sets {}; all entries must set "
                                        "the same keys",
                                        fmt::join(keys_of(list[i]), ", "), fmt::join(keys, ", "))});
    }
    return list;
}

}  // namespace

Json draw_trials(const Json& sweep, std::vector<Problem>& problems) {
    constexpr std::array kWays = {"grid", "random", "list"};
    const auto given = [&](const char* way) { return sweep.contains(way); };
    if (std::ranges::count_if(kWays, given) != 1) {
        problems.push_back({"sweep", "must have exactly one of the keys grid, random and list"});
        return Json::array();
    }
    Json trials = given("grid")     ? grid_trials(sweep["grid"], problems)
                  : given("random") ? random_trials(sweep["random"], problems)
                                    : listed_trials(sweep["list"], problems);
    if (trials.empty() && problems.empty())
        problems.push_back({"sweep", "describes no trial; give at least one key with values"});
    return trials;
}

}  // namespace roll::spec
