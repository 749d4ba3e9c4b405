#include "worker/convert/read/all_states.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "worker/convert/read/state_info.hpp"

namespace roll::convert {
namespace {

constexpr std::string_view kKey = "optimizer.state.";
constexpr std::array<const char*, 3> kCarried{"exp_avg", "exp_avg_sq", kMainWeights};

// Adds the tensors of `state` to `source`. `state` is the same checkpoint, opened to read one
// optimizer state instead of the weights.
void add_state(Source& source, Source&& state, const OptimizerStates& states) {
    const auto offset = static_cast<int>(source.model.tensors.size());
    for (std::size_t i = 0; i < states.model_tensors; ++i) {
        families::HfTensor tensor = state.model.tensors[i];
        tensor.name = std::string(kKey) + state.state + "." + tensor.name;
        const int number = source.model.add(tensor);
        source.model.keeps_fp32.insert(number);
    }
    for (SourceTensor& one : state.tensors) {
        for (Piece& piece : one.stored.pieces) piece.hf += offset;
        source.tensors.push_back(std::move(one));
    }
    std::ranges::move(state.storage.files, std::back_inserter(source.storage.files));
}

// Returns Megatron's key for a state of a tensor. `one`: a tensor of the model under its own key,
// or a part of a bucket (kind dp_reshardable).
std::string key_of(const Stored& one, const std::string& state) {
    const std::string name = state == kMainWeights ? "param" : state;
    return one.flat ? one.name + "." + name : std::string(kKey) + name + "." + one.name;
}

}  // namespace

Result<OptimizerStates> add_states(Source& source, const families::Families& families,
                                   const OpenOptions& options) {
    ROLL_TRY(const StateInfo info, read_state_info(source.directory));
    OptimizerStates states{
        .names = {}, .updates = info.updates, .model_tensors = source.model.tensors.size()};
    for (const char* name : kCarried) {
        if (!info.states.contains(name))
            return fail(ErrorCode::InvalidArgument,
                        source.directory.string() + " has no optimizer state " + name +
                            "; only the state of Adam and AdamW can be converted");
        states.names.emplace_back(name);
    }
    for (const std::string& name : states.names) {
        OpenOptions one = options;
        one.state = name;
        ROLL_TRY(Source state, open_source(source.directory, families, one));
        add_state(source, std::move(state), states);
    }
    // The states are read now, so remove them from the list of dropped tensors.
    std::erase_if(source.matching.dropped,
                  [](const Dropped& one) { return one.rule == "the optimizer's state"; });
    return states;
}

void add_state_layout(std::vector<Stored>& layout, const std::vector<Stored>& of_model,
                      const OptimizerStates& states) {
    for (std::size_t k = 0; k < states.names.size(); ++k)
        for (Stored one : of_model) {
            one.name = key_of(one, states.names[k]);
            for (Piece& piece : one.pieces)
                piece.hf += static_cast<int>((k + 1) * states.model_tensors);
            layout.push_back(std::move(one));
        }
}

}  // namespace roll::convert
