// Events as the ledger's rows hold them: a kind and a JSON object, every field present.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "daemon/core/event.hpp"

namespace roll::ledger {

// "job_submitted", "attempt_placed", ...
const char* kind_of(const core::Event& event);

// The job that the event is about, if it is about one.
std::optional<JobId> job_of(const core::Event& event);

std::string body_of(const core::Event& event);

// Corrupt: unknown kind, or a field that is missing, unknown or of the wrong type.
Result<core::Event> event_from(std::string_view kind, std::string_view body);

}  // namespace roll::ledger
