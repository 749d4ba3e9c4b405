// Errors that callers are expected to handle. For bugs, use ROLL_CHECK instead.
#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace roll {

enum class ErrorCode {
    InvalidArgument,  // the request can never succeed: wrong usage, job file or sizes (exit 2)
    NotFound,         // a job, file or node does not exist (exit 3)
    Refused,          // denied: no permission, quota reached, stale token or full disk (exit 4)
    Unavailable,      // no daemon runs, or the peer is gone; a retry may succeed (exit 5)
    Corrupt,          // stored or received bytes are damaged (exit 1)
    Failed            // any other failure (exit status 1)
};

// An error that a function returns. The message is one sentence that says what is wrong, the value
// found and what is allowed. The hint names the command to run next.
struct Error {
    ErrorCode code = ErrorCode::Failed;
    std::string message;
    std::string hint = {};
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ErrorCode code, std::string message, std::string hint = {}) {
    return tl::unexpected(Error{code, std::move(message), std::move(hint)});
}

// Returns the exit status of a program that ends with this error.
constexpr int exit_code(ErrorCode code) {
    switch (code) {
        case ErrorCode::InvalidArgument: return 2;
        case ErrorCode::NotFound: return 3;
        case ErrorCode::Refused: return 4;
        case ErrorCode::Unavailable: return 5;
        case ErrorCode::Corrupt:
        case ErrorCode::Failed: return 1;
    }
    return 1;
}

// Returns the code's name in JSON: "invalid_argument", "not_found", ...
const char* name_of(ErrorCode code);

}  // namespace roll

// Each macro evaluates an expression whose value is a Result:
//
//   ROLL_TRY(const Spec spec, parse(text));             in a function that returns Result
//   ROLL_CO_TRY(const Reply reply, co_await ask(job));  in a coroutine that returns Task<Result>
//   ROLL_TRY_VOID(call());                              for a Result<void>
//
// If the result is an Error, the macro returns it from the enclosing function. Otherwise the macro
// initializes the declaration with the value. The macros are statements and not expressions,
// because g++ 12 crashes on a statement expression that contains co_return.
#define ROLL_TRY(declaration, expression) \
    ROLL_TRY_(ROLL_CAT_(result_, __COUNTER__), return, declaration, expression)
#define ROLL_CO_TRY(declaration, expression) \
    ROLL_TRY_(ROLL_CAT_(result_, __COUNTER__), co_return, declaration, expression)
#define ROLL_TRY_VOID(expression) ROLL_TRY_VOID_(ROLL_CAT_(result_, __COUNTER__), expression)

#define ROLL_TRY_(result, leave, declaration, expression)         \
    auto result = (expression);                                   \
    if (!result) leave tl::unexpected(std::move(result).error()); \
    declaration = *std::move(result)
#define ROLL_TRY_VOID_(result, expression) \
    if (auto result = (expression); !result) return tl::unexpected(std::move(result).error())
#define ROLL_CAT_(a, b) ROLL_CAT_INNER_(a, b)
#define ROLL_CAT_INNER_(a, b) a##b
