#include "common/spec/check/valid_sets.hpp"

#include <fmt/format.h>

namespace roll::spec {

std::vector<Problem> valid_set_problems(const Json& document) {
    std::vector<Problem> problems;
    const Json data = document.value("data", Json());
    if (!data.is_object()) return problems;
    const Json valid = data.value("valid", Json());
    const Json sets = valid.is_object() ? valid : Json::object();
    const auto is_name = [](const std::string& name) {
        return !name.empty() && name.size() <= 64 &&
               name.find_first_not_of(
                   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                   "0123456789._-") == std::string::npos;
    };
    int fractions = 0;
    std::string names;
    for (const auto& [name, set] : sets.items()) {
        names += (names.empty() ? "" : ", ") + name;
        if (!is_name(name))
            problems.push_back({"data.valid." + name,
                                "is not a valid name of a set; allowed: 1 to 64 letters, digits, "
                                "dots, dashes and underscores"});
        fractions += set.is_number();
    }
    if (fractions > 1)
        problems.push_back(
            {"data.valid",
             "gives more than one set as a fraction of the training files; allowed: at most one"});
    const std::string allowed = names.empty() ? "no value, because data.valid has no named sets"
                                              : fmt::format("a set in data.valid ({})", names);
    const Json train = document.value("train", Json());
    for (const char* key : {"valid_every_of", "valid_tokens_of"}) {
        const Json of = train.is_object() ? train.value(key, Json()) : Json();
        if (!of.is_object()) continue;
        for (const auto& [name, ignored] : of.items())
            if (!sets.contains(name))
                problems.push_back(
                    {fmt::format("train.{}.{}", key, name), "is no set; allowed: " + allowed});
    }
    const Json track = data.value("track", Json());
    if (track.is_string() && !sets.contains(track.get<std::string>()))
        problems.push_back(
            {"data.track", fmt::format("is {}; allowed: {}", track.get<std::string>(), allowed)});
    return problems;
}

}  // namespace roll::spec
