// Encodes events as the ledger's rows: a kind and a JSON object with every field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "daemon/core/state/event.hpp"

namespace roll::ledger {

// Returns the event's kind: "job_submitted", "attempt_placed" and so on.
const char* kind_of(const core::Event& event);

// Returns the job that the event is about; nullopt if there is none.
std::optional<JobId> job_of(const core::Event& event);

std::string body_of(const core::Event& event);

// Decodes a row. Fails with Corrupt if the kind is unknown, or if a field is missing, unknown or
// has a wrong type.
Result<core::Event> event_from(std::string_view kind, std::string_view body);

}  // namespace roll::ledger
