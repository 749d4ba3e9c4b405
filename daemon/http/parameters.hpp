// Reads the parameters of a request from its target or from its JSON body. The functions are pure.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/protocol/operations.hpp"
#include "daemon/http/target.hpp"

namespace roll::http {

// Returns the parameters of the target as JSON. The elements of a list are separated by commas. A
// boolean is 1, 0, true or false. Fails with InvalidArgument if a parameter is not in `fields`, has
// the wrong type, or has a value that is not allowed.
Result<Json> read_query(const Target& target, const std::vector<protocol::FieldInfo>& fields);

// Returns the object in a request's body; an empty body is an empty object. Fails with
// InvalidArgument as read_query() does.
Result<Json> read_body(const std::string& body, const std::vector<protocol::FieldInfo>& fields);

// Returns the parameters of a target as a struct; see read_query().
template <class Args>
Result<Args> read_query_as(const Target& target) {
    ROLL_TRY(const Json json, read_query(target, protocol::fields_of<Args>()));
    Args args;
    protocol::FieldReader reader(json, "the address");
    fields(reader, args);
    ROLL_TRY_VOID(reader.finish(true));
    return args;
}

// Returns the arguments of an operation from the parameters of a GET request. Without the parameter
// `limit`, a list of jobs or events has at most 100 rows.
Result<Json> arguments_of_query(const Target& target, const protocol::OperationInfo& info);

// Returns the arguments of an operation from the body of a POST request. An empty body has no
// arguments.
Result<Json> arguments_of_body(const std::string& body, const protocol::OperationInfo& info);

}  // namespace roll::http
