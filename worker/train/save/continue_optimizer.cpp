#include "worker/train/save/continue_optimizer.hpp"

#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>

#include "worker/train/model/load_state.hpp"
#include "worker/train/optim/rules.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// Returns true if `weight` equals `main`, or `main` rounded to one of the types of model weights.
bool is_rounded(const at::Tensor& weight, const at::Tensor& main) {
    if (at::equal(weight, main)) return true;
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
        if (at::equal(weight, main.to(type).to(main.scalar_type()))) return true;
    return false;
}

void take_main(const fs::path& directory, const Parameters& p, std::size_t i,
               const at::Tensor& main) {
    const at::Tensor own = own_rows(p, i, main).contiguous();
    const at::Tensor weight = at::empty_like(own);
    if (own.numel() > 0) copy_main(p, i, weight);
    if (!is_rounded(weight, own))
        throw RankFailure(2, directory.string() + ": the optimizer's main weight of " +
                                 p.specs[i].name +
                                 " does not round to the model's weight; the optimizer's state may "
                                 "belong to another step or model, or have its parameters in an "
                                 "order that Roll does not know");
    const at::Tensor written = main_to_write(p, i);
    written.copy_(main);
    set_main(p, i, written);
}

// Returns the names of the states that the job's optimizers have, such as ".exp_avg".
std::set<std::string_view> endings_of(TrainStep& step) {
    std::set<std::string_view> endings;
    for (Optimizer& optimizer : step.optimizers())
        for (const std::string_view ending : all_endings(optimizer.options()))
            if (ending != kEma) endings.insert(ending);
    return endings;
}

std::string listed(const std::set<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

std::vector<Parameters*> parameters_of(TrainStep& step) {
    std::vector<Parameters*> chunks;
    for (Chunk& chunk : step.chunks()) chunks.push_back(&chunk.parameters());
    return chunks;
}

}  // namespace

std::int64_t read_states(const fs::path& directory, TrainStep& step) {
    const StoredStates stored = stored_states(directory);
    const std::vector<Parameters*> chunks = parameters_of(step);
    std::set<std::string> without;
    for (const std::string_view ending : endings_of(step)) {
        const std::string state(ending.substr(1));
        if (!stored.names.contains(state))
            throw RankFailure(
                2,
                directory.string() + " has no optimizer state " + state + "; it has " +
                    listed(stored.names) +
                    "; set train.optimizer.kind to the kind of the job that wrote the checkpoint");
        const auto missing = load_state(
            directory, state, chunks, [&](std::size_t chunk, std::size_t i, const at::Tensor& all) {
                const at::Tensor into = step.optimizers()[chunk].state().of(ending, i);
                if (into.defined() && into.numel() > 0)
                    copy_state(into, own_rows(*chunks[chunk], i, all).contiguous());
            });
        without.insert(missing.begin(), missing.end());
    }
    if (!without.empty())
        std::printf(
            "the job that wrote %s had frozen these parameters, so their optimizer state begins at "
            "0: %s\n",
            directory.c_str(), listed(without).c_str());
    for (Optimizer& optimizer : step.optimizers()) optimizer.state().steps = stored.updates;
    return stored.updates;
}

std::int64_t continue_optimizer(const fs::path& directory, TrainStep& step) {
    const std::vector<Parameters*> chunks = parameters_of(step);
    if (stored_states(directory).names.contains(kMainWeightState))
        load_state(directory, kMainWeightState, chunks,
                   [&](std::size_t chunk, std::size_t i, const at::Tensor& main) {
                       take_main(directory, *chunks[chunk], i, main);
                   });
    const std::int64_t updates = read_states(directory, step);
    for (Optimizer& optimizer : step.optimizers()) optimizer.start_average();
    return updates;
}

}  // namespace roll::train
