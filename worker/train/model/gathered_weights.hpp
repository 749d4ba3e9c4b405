// Weights that data-parallel ranks share by rows (ZeRO-3). Each rank stores its own rows of every
// shared weight. A unit is the embedding, a layer or the output layer of the chunk. Before a unit
// is used, its rows are gathered from all ranks. After use, the gathered rows are freed. At most
// two units are gathered at a time: the unit in use, and the next unit, which is being transferred.
// While a unit is not gathered, Parameters::weight has only this rank's own rows.
//
// All blocks for gathered weights have the same size, so that a later unit reuses the blocks of an
// earlier unit. Blocks of different sizes would leave holes in the allocator's heap.
//
// All ranks must hold the same units in the same order.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Numbers of a chunk's units. A layer is unit layer_unit(i), where i counts from the chunk's first
// layer.
inline constexpr int kEmbeddingUnit = 0;
inline int layer_unit(std::int64_t layer) { return 1 + static_cast<int>(layer); }

class GatheredWeights {
  public:
    // `units`: for each unit, the indices of its shared parameters. `parameters` and `dp` must
    // outlive this object.
    GatheredWeights(Parameters& parameters, std::vector<std::vector<int>> units, Communicator& dp);

    // Waits until the weights of `unit` are whole, and starts to gather the unit `next` (-1: none).
    // A unit may be held several times; the unit is freed when its last hold is released. `again`:
    // true in backward.
    void hold(int unit, int next, bool again);
    void release(int unit);

    // Aborts if a unit is held. A unit must not be held after a step, because the update changes
    // the unit's weights.
    void check_all_free() const;

    // Returns the largest number of units that were gathered at once.
    int most_held() const { return most_held_; }

  private:
    struct Unit {
        std::vector<int> parameters;
        std::int64_t longest = 0;  // number of elements of the longest piece that a rank sends
        int holds = 0;
        bool is_gathering = false;
        Communicator::Ticket ticket = 0;
        at::Tensor sent, received, whole;

        // Returns the received pieces as a tensor of sizes {ranks, longest}.
        at::Tensor pieces(int ranks) const;
    };

    // Returns a block of memory that is large enough for the pieces or the whole weights of any
    // unit.
    at::Tensor take_block();
    void start(int unit, bool again);
    void finish(Unit& unit);

    Parameters& parameters_;
    Communicator& dp_;
    std::vector<Unit> units_;
    std::vector<at::Tensor> own_;  // for each parameter: this rank's own rows of its weight
    std::int64_t block_numel_ = 0;
    // unused blocks of memory; freed when no unit is gathered
    std::vector<at::Tensor> free_blocks_;
    int held_ = 0, most_held_ = 0;
};

// Holds a unit from construction to destruction. If `weights` is null, no weights are shared and
// nothing happens.
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
