// Finds the parts of State that an input names.
#pragma once

#include <string>

#include <tl/expected.hpp>

#include "common/error.hpp"
#include "daemon/core/state/state.hpp"

namespace roll::core {

// Returns a pointer to the value under the key `id`; nullptr if `map` has no such key.
template <class Map>
auto* find(Map& map, const typename Map::key_type& id) {
    const auto found = map.find(id);
    return found == map.end() ? nullptr : &found->second;
}

// Returns the error NotFound for a job that does not exist.
tl::unexpected<Error> no_such_job(JobId id);

// Returns the attempt `key` if it is the current attempt of its job, else nullptr.
const Attempt* current(const State& s, const AttemptKey& key);

// Returns the resources that the attempt `key` holds on the worker; nullptr if the attempt is not
// current or holds no resources there.
const Place* member(const State& s, const AttemptKey& key, WorkerId worker);

}  // namespace roll::core
