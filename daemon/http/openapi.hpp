// Describes the HTTP interface as OpenAPI 3.1, from the table of operations and the table of
// routes.
#pragma once

#include "common/json.hpp"
#include "common/protocol/operations.hpp"

namespace roll::http {

// Returns whether /api/v1/NAME serves the operation. Operations on tokens and `shutdown` are not
// served, because only clients with a key may call them. job_file is not served, because roll-web
// reads the log and the metrics of a job itself and has other addresses for them.
bool is_served(const protocol::Operation& operation);

Json openapi();

}  // namespace roll::http
