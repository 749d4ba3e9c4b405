// Roll's coroutines, which run on one io_context in one thread.
//
// g++ 12 miscompiles some temporaries in an expression with co_await. Such an expression may
// contain only names, literals, calls and temporaries made by constructors.
#pragma once

#include <exception>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "common/check.hpp"

namespace roll::io {

template <class T = void>
using Task = boost::asio::awaitable<T>;

// Runs a coroutine on the context. Aborts the program if an exception escapes from the coroutine.
inline void spawn(boost::asio::io_context& context, Task<void> task) {
    boost::asio::co_spawn(context, std::move(task),
                          [](std::exception_ptr escaped) { ROLL_CHECK(escaped == nullptr); });
}

}  // namespace roll::io
