// Finds the parts of State that an event names. ROLL_CHECKs that they exist.
#pragma once

#include "common/check.hpp"
#include "daemon/core/state/state.hpp"

namespace roll::core {

template <class Map>
auto& at(Map& map, const typename Map::key_type& id) {
    const auto found = map.find(id);
    ROLL_CHECK(found != map.end());
    return found->second;
}

// Returns a job that has not ended.
Job& open_at(State& s, JobId id);

// Returns the job whose current attempt is `key`.
Job& current(State& s, const AttemptKey& key);

// Returns the resources that the job's user holds and has used under the job's account.
Use& use_of(State& s, const Job& job);

}  // namespace roll::core
