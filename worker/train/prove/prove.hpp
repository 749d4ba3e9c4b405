// Proves that a train job in its layout computes the same numbers as on one rank. Reduces the job
// to the smallest sizes that keep its layout (cut.hpp). Trains the reduced job in float64 on as
// many ranks as the layout has; these ranks are threads of this process. Then compares all
// gradients, weights and optimizer states with a run on one rank with the same micro-batches. Both
// runs also write a checkpoint, and each run continues from the checkpoint of the other run. The
// remaining steps are compared, too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/train/prove/cut.hpp"
#include "worker/train/prove/local_job.hpp"

namespace roll::train {

struct Proof {
    SmallJob job;
    // for each chunk, its number of layers, in the order of forward
    std::vector<std::int64_t> layers = {};
    int steps = 0;
    double clip_grad = 0;                  // limit of the gradient norm; every step exceeds it
    std::size_t tensors = 0, numbers = 0;  // number of compared tensors and plain numbers
    Difference worst = {};                 // the compared quantity with the largest error
    // The first quantity that differs, and the first tensor that differs; nullopt if none differs
    std::optional<Difference> first = std::nullopt, first_tensor = std::nullopt;
    std::size_t differing = 0;
    // The run of `first`: "layout", "one rank, resumed from the layout's checkpoint," or "the
    // layout, resumed from one rank's checkpoint,"; empty if nothing differs
    std::string first_run = {};
    bool checkpoints = false;  // true: checkpoints are compared, too
    std::string fault = {};    // reason why the ranks could not train; empty if they trained
    double seconds = 0;

    bool holds() const { return differing == 0 && fault.empty(); }
};

// The largest error with which two quantities count as equal.
inline constexpr double kProofLimit = 1e-10;

// Proves that the job's layout computes the same numbers as one rank. `model`: the job's model. If
// the model has no native config, checkpoints are left out. `plants`: bugs to add to the
// communication of the layout's ranks, for tests. Throws RankFailure(invalid) if the job could not
// run, with the same message as plan_json(), and RankFailure if the ranks make no transfer that a
// plant changes.
Proof prove(const spec::TrainSpec& spec, const ModelSetup& model,
            const std::vector<Plant>& plants = {});

}  // namespace roll::train
