// Maintains the index of State.
#pragma once

#include "daemon/core/state/state.hpp"

namespace roll::core {

// unfile() removes a job from the index, and file() adds the job. Call unfile() before a job
// changes and file() afterwards.
void unfile(State& state, JobId id);
void file(State& state, JobId id);

// unfile_places() removes the job from the index of each worker that its attempt uses (by_worker),
// and file_places() adds the job. Call these functions when the attempt gets its workers or gives
// them up. Other changes of an attempt's places do not affect by_worker and need no call. Such
// changes are therefore cheap for a gang with many places.
void unfile_places(State& state, JobId id);
void file_places(State& state, JobId id);

// Builds the index of all jobs from scratch. The result must equal the index that file() maintains.
Index make_index(const State& state);

}  // namespace roll::core
