// How the process deals with memory.
#pragma once

namespace roll::train {

// From now on freed memory stays with the process: every step allocates what the one before freed,
// and to fault its pages in again costs a tenth of it. For a program's start; the tensors of all
// threads are affected.
void keep_freed_memory();

}  // namespace roll::train
