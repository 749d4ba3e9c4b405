// The table of the operations that clients call, each with its handler.
#pragma once

#include <span>
#include <string_view>

#include "common/protocol/arguments.hpp"
#include "daemon/api/context.hpp"
#include "daemon/api/plan.hpp"

namespace roll::api {

struct ServedOperation {
    const protocol::Operation* operation;
    // Parses the arguments and returns a plan. An error is sent to the client at once.
    Result<Plan> (*handle)(const Context& context, const Caller& who, const Json& args);
};

// Makes a row of the table from a handler: Result<Plan> handler(context, who, const Args&).
template <class Args, Result<Plan> (*handler)(const Context&, const Caller&, const Args&)>
constexpr ServedOperation served() {
    return {&Args::kOperation,
            [](const Context& context, const Caller& who, const Json& json) -> Result<Plan> {
                ROLL_TRY(const Args args, protocol::read_arguments<Args>(json));
                return handler(context, who, args);
            }};
}

// Each function returns one group of operations. Each group has a file of its own in this folder.
std::span<const ServedOperation> submit_operations();
std::span<const ServedOperation> job_operations();
std::span<const ServedOperation> shell_operations();
std::span<const ServedOperation> view_operations();
std::span<const ServedOperation> node_operations();
std::span<const ServedOperation> allocation_operations();
std::span<const ServedOperation> secret_operations();
std::span<const ServedOperation> token_operations();
std::span<const ServedOperation> file_operations();

std::span<const ServedOperation> operations();

// Returns a value that was read from a request. Readers of stored data fail with Corrupt; here the
// request is at fault, so the error becomes InvalidArgument.
template <class T>
Result<T> from_request(Result<T> read) {
    if (!read && read.error().code == ErrorCode::Corrupt)
        read.error().code = ErrorCode::InvalidArgument;
    return read;
}

// Returns the operation `name`. Fails with InvalidArgument if there is none. Fails with Refused if
// `who` may not use the operation: only operators may use it, or the token of `who` does not allow
// it.
Result<const ServedOperation*> find_for(const Caller& who, std::string_view name);

}  // namespace roll::api
