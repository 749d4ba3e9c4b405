#include "common/spec/check/bad_step_rules.hpp"

#include <string>

#include <fmt/format.h>

namespace roll::spec {

std::vector<Problem> bad_step_problems(const Json& document) {
    const Json train = document.value("train", Json());
    if (!train.is_object()) return {};
    std::vector<Problem> problems;
    if (train.contains("spike") && train.value("on_spike", Json("ignore")) == "ignore")
        problems.push_back({"train.spike",
                            "has no effect, because train.on_spike is ignore; remove spike, or set "
                            "on_spike to skip, rewind or stop"});
    const Json faults = train.value("faults", Json::array());
    for (std::size_t i = 0; faults.is_array() && i < faults.size(); ++i) {
        if (!faults[i].is_object() || faults[i].value("kind", Json()) != "glitch") continue;
        const Json phase = faults[i].value("phase", Json());
        if (!phase.is_string() || phase == "reduce") continue;
        problems.push_back({fmt::format("train.faults[{}].phase", i),
                            fmt::format("is {}, but a glitch changes a gradient before it is "
                                        "reduced; allowed: reduce",
                                        phase.get<std::string>())});
    }
    return problems;
}

}  // namespace roll::spec
