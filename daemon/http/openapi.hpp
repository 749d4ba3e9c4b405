// Describes the HTTP interface as OpenAPI 3.1, from the table of operations.
#pragma once

#include "common/json.hpp"
#include "common/protocol/operations.hpp"

namespace roll::http {

// Returns whether /api/v1/NAME serves the operation. Tokens are made and rolld is ended only by
// clients with a key.
bool is_served(const protocol::Operation& operation);

Json openapi();

}  // namespace roll::http
