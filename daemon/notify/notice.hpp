// Makes notifications. A notification is an event of rolld in the form that targets get. The
// functions are pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/json.hpp"
#include "daemon/notify/target.hpp"

namespace roll::notify {

// Returns the name that targets use for `event`, a row of the reply to `events`; nullopt if
// event_names() has no name for it.
std::optional<std::string> name_of(const Json& event);

// Returns whether the target gets the event. `job` is the summary of its job, or null if rolld no
// longer stores the job. The event name `failed` stands for the event `ended` of a failed job.
bool wants(const Target& target, const Json& event, const Json& job);

// Returns the body of a notification, roll.notification/1 {seq, at, event, text, job, data}.
std::string body_of(const Json& event, const Json& job);

// Returns "sha256=" and the HMAC-SHA256 of `body` with the key `secret`, in lower-case hex digits.
std::string signature(std::string_view secret, std::string_view body);

// Returns the pause before the next attempt after `failures` failures in a row: 1 s, doubled after
// each further failure, at most 5 minutes.
std::chrono::seconds backoff(int failures);

}  // namespace roll::notify
