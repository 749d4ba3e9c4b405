#include "worker/train/model/load_state.hpp"

#include <map>

#include <ATen/ATen.h>

#include "common/files.hpp"
#include "worker/checkpoint/optimizer_index.hpp"
#include "worker/convert/plan/gather.hpp"
#include "worker/convert/read/open.hpp"
#include "worker/convert/read/state_info.hpp"
#include "worker/families/families.hpp"
#include "worker/train/model/read_source.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// Returns a tensor of the parameter's sizes on this rank. For the main weight, the tensor has all
// rows that the rank stores as a weight. For any other state, the tensor has this rank's own rows.
// The other rows are 0.
at::Tensor read_own(const convert::Source& source, const convert::TargetTensor& target,
                    const Parameters& parameters, std::size_t i, SourceReader& reader) {
    const ParameterSpec& spec = parameters.specs[i];
    if (target.info.shape != whole_sizes(spec))
        throw RankFailure(2, source.directory.string() + ": the optimizer's " + source.state +
                                 " of " + spec.name + " has shape " +
                                 tensor::to_string(target.info.shape) + "; the job's model has " +
                                 tensor::to_string(whole_sizes(spec)));
    const bool has_all_rows = source.state == kMainWeightState && !parameters.is_split[i];
    const layout::Rows rows = has_all_rows ? layout::Rows{0, spec.sizes[0]} : parameters.own[i];
    const at::Tensor own = at::zeros(spec.sizes, main_type(parameters));
    reader.read_part(target, spec, rows, own);
    convert::release(source, target);
    return own;
}

}  // namespace

std::vector<std::string> load_state(const fs::path& directory, const std::string& state,
                                    std::span<Parameters* const> chunks, const TakeState& take) {
    const families::Families families = need(families::Families::load());
    // A checkpoint has no state of parameters that were frozen in the job that wrote the
    // checkpoint.
    const convert::Source source = of_disk(convert::open_source(
        directory, families, {.strictness = convert::Strictness::IgnoreAll, .state = state}));
    // The index lists the parameters that the checkpoint's job has trained; other parameters may
    // lack state. A torch_dist checkpoint has no index, because its job has trained all parameters.
    checkpoint::OptimizerIndex index;
    if (path_exists(directory / checkpoint::kOptimizerIndexFile))
        index = of_disk(checkpoint::read_optimizer_index(directory));
    std::vector<std::string> without;
    const convert::Plan plan = plan_whole(source, dtype_of(*chunks[0]));
    SourceReader reader(source);
    std::map<std::string, const convert::TargetTensor*> targets;
    for (const convert::TargetTensor& target : plan.tensors) targets[target.info.name] = &target;
    for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
        const Parameters& parameters = *chunks[chunk];
        for (std::size_t i = 0; i < parameters.specs.size(); ++i) {
            const ParameterSpec& spec = parameters.specs[i];
            if (spec.frozen) continue;
            const auto target = targets.find(spec.name);
            if (target != targets.end()) {
                take(chunk, i, read_own(source, *target->second, parameters, i, reader));
                continue;
            }
            if (index.parameters.empty() || index.parameters.contains(spec.name))
                throw RankFailure(2, directory.string() + " has no optimizer state " + state +
                                         " of " + spec.name);
            without.push_back(spec.name);
        }
    }
    reader.compare_replicas(plan);
    return without;
}

StoredStates stored_states(const fs::path& directory) {
    const convert::StateInfo info = of_disk(convert::read_state_info(directory));
    return {info.states, info.updates};
}

}  // namespace roll::train
