// Chooses a member's GPUs and slots on its worker: GPUs of one NUMA node, and slots near them.
#pragma once

#include "daemon/core/room.hpp"

namespace roll::core {

// Returns the GPU that a slot is near. Slot s of S is near GPU s * G / S of G, because roll-worker
// binds a slot's programs to CPUs near that GPU.
int gpu_near(int slot, const Free& free);

// Chooses the GPUs and slots of a member. Requires that `wanted` fits. Whole GPUs come from one
// NUMA node if one has enough free GPUs (the node with the fewest of these), else from as few nodes
// as possible. A GPU share comes from the GPU with the least left that suffices.
Place place_on(WorkerId id, const Free& free, const spec::Resources& wanted);

}  // namespace roll::core
