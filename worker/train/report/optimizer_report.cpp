#include "worker/train/report/optimizer_report.hpp"

#include "worker/plan/size_text.hpp"
#include "worker/train/optim/rules.hpp"
#include "worker/train/pipeline/job_memory.hpp"

namespace roll::train {

OrderedJson optimizer_json(const spec::TrainSpec& spec,
                           const std::vector<ParameterSpec>& parameters) {
    OrderedJson bytes = OrderedJson::object();
    for (const std::string_view ending : all_endings(spec.optimizer))
        bytes[std::string(ending.substr(1))] = state_bytes(spec, parameters, ending);
    return {{"kind", spec::name_of(spec.optimizer.kind)}, {"state_bytes", bytes}};
}

std::string optimizer_text(const OrderedJson& optimizer) {
    std::string states;
    for (const auto& [name, bytes] : optimizer["state_bytes"].items())
        states +=
            (states.empty() ? "" : ", ") + name + " " + plan::bytes_text(bytes.get<std::int64_t>());
    return "optimizer   " + optimizer["kind"].get<std::string>() + ", " +
           (states.empty() ? "no state" : "state for the whole model: " + states) + "\n";
}

}  // namespace roll::train
