// Updates a chunk's main weights. A rank updates its own rows of each parameter (parameters.hpp) by
// the parameter's rule (rules.hpp). Frozen parameters do not change and have no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/spec/model.hpp"
#include "common/spec/optimizer.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/optim/matrix_exchange.hpp"
#include "worker/train/optim/rules.hpp"
#include "worker/train/optim/update.hpp"

namespace roll::train {

// One kind of state, such as the first moments.
struct StateTensors {
    std::string_view ending;     // ending of the state's tensor names in checkpoints
    at::Tensor flat;             // the state of all parameters, concatenated in their order
    std::vector<at::Tensor> of;  // for each parameter: state of its own rows, or undefined
};

// The state of an optimizer. Checkpoints are written from these members and restored into them.
struct OptimizerState {
    std::int64_t steps = 0;  // number of updates made
    std::vector<StateTensors> kinds;

    // Returns the state of parameter `i` with this name ending; undefined if it has no such state.
    at::Tensor of(std::string_view ending, std::size_t i) const;
    // Returns the flat tensor of the state with this name ending; undefined if there is none.
    at::Tensor flat(std::string_view ending) const;
};

class Optimizer {
  public:
    // `dp`, `tp`: the groups of the ranks that share the parameters; null: there is no such group.
    // Only Muon uses the groups, to collect whole matrices. `config`: the model's config; only Muon
    // and LoRA+ use it.
    explicit Optimizer(const Parameters& parameters, const spec::OptimizerSpec& options = {},
                       const spec::ModelConfig& config = {}, Communicator* dp = nullptr,
                       Communicator* tp = nullptr);

    // Makes one update. The gradient is first multiplied by `grad_scale`, which includes the factor
    // of clipping. With kind Muon, every rank of the groups must call this function.
    void step(double lr, double grad_scale);

    // Changes the weight decay that the next steps use.
    void set_weight_decay(double weight_decay) { options_.weight_decay = weight_decay; }

    OptimizerState& state() { return state_; }
    spec::OptimizerKind kind() const { return options_.kind; }

  private:
    Update update_of(std::size_t i, double lr, double grad_scale) const;
    void update_matrices(double lr, double grad_scale);
    void update_adamw_on_gpu(double lr);
    void round_on_gpu();

    spec::OptimizerSpec options_;
    spec::ModelConfig config_;
    const Parameters& parameters_;
    std::vector<ParameterRule> rules_;  // for each parameter: its update rule
    OptimizerState state_;
    std::optional<MatrixExchange> matrices_;  // set with kind Muon
};

}  // namespace roll::train
