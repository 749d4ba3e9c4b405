// Maintains the index of State.
#pragma once

#include "daemon/core/state/state.hpp"

namespace roll::core {

// unfile() removes a job from the index, file() adds it. Call unfile() before a job changes and
// file() afterwards.
void unfile(State& state, JobId id);
void file(State& state, JobId id);

// unfile_places() removes the places of the job's attempt from the index, file_places() adds them.
// Call them before and after a change of the places that the attempt holds. A change inside a place
// needs neither call, and is therefore cheap in a wide gang.
void unfile_places(State& state, JobId id);
void file_places(State& state, JobId id);

// Builds the index of all jobs from scratch. The result must equal the index that file() maintains.
Index make_index(const State& state);

}  // namespace roll::core
