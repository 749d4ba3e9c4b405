// Chooses a member's GPUs and slots on its worker: GPUs of one NUMA node, and slots near them.
#pragma once

#include "daemon/core/room.hpp"

namespace roll::core {

// Slot s of S is near GPU s * G / S: roll-worker binds a slot's programs to CPUs near that GPU.
int gpu_near(int slot, const Free& free);

// Requires that `wanted` fits. Whole GPUs come from the NUMA node with the fewest free GPUs that
// suffice, else from as few nodes as possible. A GPU share comes from the GPU with the least left
// that suffices.
Place place_on(WorkerId id, const Free& free, const spec::Resources& wanted);

}  // namespace roll::core
