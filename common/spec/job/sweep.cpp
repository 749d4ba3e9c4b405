#include "common/spec/job/sweep.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/check.hpp"

namespace roll::spec {

std::optional<Problem> set_parameters(Json& document, const Json& parameters) {
    for (const auto& [path, value] : parameters.items()) {
        Json* at = &document;
        std::string_view rest = path;
        for (;;) {
            const std::size_t dot = rest.find('.');
            const std::string name(rest.substr(0, dot));
            if (name.empty() || !(at->is_object() || at->is_null()))
                return Problem{"sweep", fmt::format("has the key {}; no part of this path may be "
                                                    "empty, and all parts but the last one must "
                                                    "name mappings",
                                                    path)};
            at = &(*at)[name];
            if (dot == std::string_view::npos) break;
            rest.remove_prefix(dot + 1);
        }
        *at = value;
    }
    return std::nullopt;
}

std::optional<Trials> Trials::of(const std::string& text) {
    if (text.find(R"("trials":)") == std::string::npos) return std::nullopt;
    auto document = parse_json(text);
    if (!document || !document->is_object() || !document->contains("sweep")) return std::nullopt;
    const auto indices = document->value("sweep", Json());
    if (!indices.is_object() || !indices.value("trials", Json()).is_array()) return std::nullopt;
    Trials all;
    all.trials_ = std::move((*document)["sweep"]["trials"]);
    (*document)["sweep"].erase("trials");
    all.common_ = *std::move(document);
    if (!can_set(all.trials_, all.common_)) return std::nullopt;
    return all;
}

std::string Trials::document(std::size_t trial) const {
    ROLL_CHECK(trial < trials_.size());
    Json document = common_;
    set_parameters(document, trials_[trial]);
    Json& sweep = document["sweep"];
    sweep["trial"] = trial;
    sweep["parameters"] = trials_[trial];
    if (trial == 0) sweep["trials"] = trials_;
    return document.dump();
}

bool can_set(const Json& trials, Json document) {
    const auto fits = [&](const Json& trial) {
        if (!trial.is_object()) return false;
        for (const auto& [path, value] : trial.items())
            if (path == "sweep" || path.starts_with("sweep.")) return false;
        return !set_parameters(document, trial);
    };
    return trials.is_array() && std::ranges::all_of(trials, fits);
}

}  // namespace roll::spec
