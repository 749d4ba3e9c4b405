// Weights that data-parallel ranks share by rows (ZeRO-3). Each rank stores its own rows of every
// shared weight. Before a unit of the chunk is used (the embedding, a layer or the output layer),
// the rows of all ranks are gathered; after it, they are freed. At most two units are gathered at
// once: the one that is used, and the next one, whose transfer runs while the first is used. While
// a unit is not gathered, Parameters::weight has the own rows only.
//
// All ranks hold the same units in the same order.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Returns true if ranks that share weights split this one by rows. Vectors and LoRA's factors are
// small, and each rank has them whole.
inline bool is_splittable(const ParameterSpec& spec) {
    return spec.sizes.size() > 1 && spec.lora != LoraRole::Factor;
}

// The units of a chunk. A layer is unit layer_unit(i), where i counts from the chunk's first layer.
inline constexpr int kEmbeddingUnit = 0;
inline int layer_unit(std::int64_t layer) { return 1 + static_cast<int>(layer); }

class GatheredWeights {
  public:
    // `units`: the indices of the shared parameters of each unit. Both references must outlive this
    // object.
    GatheredWeights(Parameters& parameters, std::vector<std::vector<int>> units, Communicator& dp);

    // Makes the weights of a unit whole, and starts to gather those of the unit `next` (-1: none).
    // Both may be held already; a unit is freed with its last hold. `again`: in backward.
    void hold(int unit, int next, bool again);
    void release(int unit);

    // Aborts if a unit is held. A unit must not be held from one step to the next, because the
    // update changes its weights.
    void check_all_free() const;

    // Largest number of units that were held at once.
    int most_held() const { return most_held_; }

  private:
    struct Unit {
        std::vector<int> parameters;
        std::int64_t longest = 0;  // elements of the longest part of a rank
        int holds = 0;
        bool is_gathering = false;
        Communicator::Ticket ticket = 0;
        at::Tensor sent, received;
    };

    void start(int unit, bool again);
    void finish(Unit& unit);

    Parameters& parameters_;
    Communicator& dp_;
    std::vector<Unit> units_;
    std::vector<at::Tensor> own_;  // by parameter: the own rows of its weight
    int held_ = 0, most_held_ = 0;
};

// Holds a unit in a scope. With a null pointer, nothing is shared and nothing happens.
class HeldUnit {
  public:
    HeldUnit(GatheredWeights* weights, int unit, int next, bool again = false)
        : weights_(weights),
          unit_(unit) {
        if (weights_ != nullptr) weights_->hold(unit, next, again);
    }
    ~HeldUnit() {
        if (weights_ != nullptr) weights_->release(unit_);
    }
    HeldUnit(const HeldUnit&) = delete;
    HeldUnit& operator=(const HeldUnit&) = delete;

  private:
    GatheredWeights* weights_;
    int unit_;
};

}  // namespace roll::train
