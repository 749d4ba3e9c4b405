#include "common/spec/check/bad_step_rules.hpp"

#include <string>

#include <fmt/format.h>

namespace roll::spec {
namespace {

// Reports what does not fit the kind of the fault with index `i`.
void check_fault(const Json& fault, std::size_t i, std::vector<Problem>& problems) {
    const Json kind = fault.value("kind", Json()), phase = fault.value("phase", Json());
    const auto refuse = [&](const char* key, const std::string& why) {
        problems.push_back({fmt::format("train.faults[{}].{}", i, key), why});
    };
    if (phase.is_string() && kind == "glitch" && phase != "reduce" && phase != "optimizer")
        refuse("phase", fmt::format("is {}, but a glitch changes a gradient before or after it is "
                                    "summed over the ranks; allowed: reduce or optimizer",
                                    phase.get<std::string>()));
    if (phase.is_string() && kind == "disk_full" && phase != "save")
        refuse("phase", fmt::format("is {}, but a full disk is noticed when a checkpoint is saved; "
                                    "allowed: save",
                                    phase.get<std::string>()));
    if (kind == "slow" && !fault.contains("ms"))
        refuse("ms",
               "is missing; kind slow needs the time in ms that the rank sleeps in each step");
    if (kind != "slow" && fault.contains("ms"))
        refuse("ms", "belongs to kind slow; remove ms, or set kind to slow");
}

}  // namespace

std::vector<Problem> bad_step_problems(const Json& document) {
    const Json train = document.value("train", Json());
    if (!train.is_object()) return {};
    std::vector<Problem> problems;
    if (train.contains("spike") && train.value("on_spike", Json("ignore")) == "ignore")
        problems.push_back({"train.spike",
                            "has no effect, because train.on_spike is ignore; remove spike, or set "
                            "on_spike to skip, rewind or stop"});
    const Json faults = train.value("faults", Json::array());
    for (std::size_t i = 0; faults.is_array() && i < faults.size(); ++i)
        if (faults[i].is_object()) check_fault(faults[i], i, problems);
    return problems;
}

}  // namespace roll::spec
