// Updates a chunk's main weights. A rank updates its own rows of each parameter (parameters.hpp) by
// the parameter's rule (rules.hpp). Frozen parameters do not change and have no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/spec/train/model.hpp"
#include "common/spec/train/optimizer.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/optim/matrix_exchange.hpp"
#include "worker/train/optim/rules.hpp"
#include "worker/train/optim/update.hpp"
#include "worker/train/optim/whole_sums.hpp"

namespace roll::train {

// One kind of state, such as the first moments.
struct StateTensors {
    std::string_view ending;  // ending of the state's tensor names in checkpoints
    // The state of all parameters, concatenated in their order. `offloaded` has the state that is
    // outside the device's memory, and is undefined if there is none; `flat` has the other state.
    at::Tensor offloaded, flat;
    // For each parameter, the state of this rank's own rows. If the state is not divided among
    // ranks (StateForm::whole), the whole state. Undefined if the parameter has no such state.
    std::vector<at::Tensor> of;
};

// The state of an optimizer. Checkpoints are written from these members and restored into them.
struct OptimizerState {
    std::int64_t steps = 0;  // number of updates made
    std::vector<StateTensors> kinds;

    // Returns StateTensors::of[i] of the kind with this ending; undefined if there is no such kind.
    at::Tensor of(std::string_view ending, std::size_t i) const;
    // Returns StateTensors::flat of the kind with this ending; undefined if there is no such kind.
    at::Tensor flat(std::string_view ending) const;
};

class Optimizer {
  public:
    // `dp`, `tp`: the groups of the ranks that share the parameters; null: there is no such group.
    // Only Muon, Adafactor and 8-bit states use the groups. `config`: the model's config.
    explicit Optimizer(const Parameters& parameters, const spec::OptimizerSpec& options = {},
                       const spec::ModelConfig& config = {}, Communicator* dp = nullptr,
                       Communicator* tp = nullptr);

    // Makes one update. The gradient is first multiplied by `grad_scale`. `grad_scale` includes the
    // factor of clipping. If this kind of optimizer uses the groups, all ranks of the groups must
    // call step().
    void step(double lr, double grad_scale);

    // Starts the average of the weights with the current weights. Call this function after weights
    // are loaded.
    void start_average();
    // Exchanges the main weights of this rank's own rows with their average. A second call restores
    // both bitwise. Weights that other ranks own do not change.
    void swap_average();

    // Changes the weight decay that the next steps use.
    void set_weight_decay(double weight_decay) { options_.weight_decay = weight_decay; }

    OptimizerState& state() { return state_; }
    const spec::OptimizerSpec& options() const { return options_; }
    spec::OptimizerKind kind() const { return options_.kind; }

  private:
    Update update_of(std::size_t i, double lr, double grad_scale) const;
    void update_matrices(double lr, double grad_scale);
    void update_adamw_on_gpu(double lr);
    void update_average();
    void round_weights();

    spec::OptimizerSpec options_;
    spec::ModelConfig config_;
    const Parameters& parameters_;
    std::vector<ParameterRule> rules_;  // for each parameter: its update rule
    OptimizerState state_;
    std::optional<MatrixExchange> matrices_;  // set with kind Muon
    std::optional<WholeSums> sums_;           // set with Adafactor and 8-bit states
};

}  // namespace roll::train
