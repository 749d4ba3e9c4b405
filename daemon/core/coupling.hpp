// Which GPUs and slots of its worker a member gets: GPUs of one NUMA node, and the slots that lie
// near them.
#pragma once

#include "daemon/core/room.hpp"

namespace roll::core {

// Slot s of S lies near GPU s * G / S: roll-worker binds the programs of a slot to CPUs near that.
int gpu_near(int slot, const Free& free);

// `wanted` must fit. Whole GPUs: of the NUMA node with the fewest free ones that has enough, else
// of as few nodes as will do. A part of one: of the GPU with the least left that has enough.
Place place_on(WorkerId id, const Free& free, const spec::Resources& wanted);

}  // namespace roll::core
