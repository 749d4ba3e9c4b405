#include "common/spec/check/experts.hpp"

#include <fmt/format.h>

#include "common/spec/train/preference.hpp"

namespace roll::spec {

std::vector<Problem> expert_problems(const ExpertUse& use) {
    std::vector<Problem> problems;
    if (is_preference(use.objective))
        problems.push_back(
            {"objective",
             fmt::format("is {}, but the model has experts, and objectives that compare answers do "
                         "not balance experts yet; allowed with this model: pretrain or sft",
                         use.objective)});
    if (use.cp > 1)
        problems.push_back(
            {"parallel.cp", fmt::format("is {}, but the model has experts, which are not balanced "
                                        "over the ranks that share a sequence yet; allowed with "
                                        "this model: 1",
                                        use.cp)});
    if (use.has_lora)
        problems.push_back({"train.lora",
                            "is set, but the model has experts, and adapters of such models are "
                            "not trained yet; remove it to train all weights"});
    if (use.on_gpu)
        problems.push_back({"resources",
                            "give GPUs, but the model has experts, which have not been trained on "
                            "GPUs yet; allowed with this model: slots_per_node"});
    return problems;
}

}  // namespace roll::spec
