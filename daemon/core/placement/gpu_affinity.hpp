// Chooses the GPUs and slots of a member on its worker: GPUs of one NUMA node, and slots near them.
#pragma once

#include "daemon/core/placement/capacity.hpp"

namespace roll::core {

// Returns the index of the GPU near `slot`. With S slots and G GPUs, slot s is near GPU s * G / S
// (rounded down): roll-worker binds the programs of slot s to CPUs near this GPU.
int gpu_near(int slot, const FreeSlots& free);

// Chooses the GPUs and slots of a member. Requires that `wanted` fits into `free`.
//
// Whole GPUs come from one NUMA node if a node has enough free GPUs. If several nodes have enough,
// the node with the fewest free GPUs is used. If no node has enough, whole GPUs come from as few
// nodes as possible. A share of a GPU comes from the GPU with the smallest free share that
// suffices.
Place place_on(WorkerId id, const FreeSlots& free, const spec::Resources& wanted);

}  // namespace roll::core
