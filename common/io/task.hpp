// Coroutines of this project: one io_context, one thread. The rule for g++ 12 (house style): the
// full expression around a co_await holds only names, literals, calls and constructor-made
// temporaries.
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

// Runs a coroutine on the context. One that lets an exception escape is a bug: it aborts.
inline void spawn(boost::asio::io_context& context, Task<void> task) {
    boost::asio::co_spawn(context, std::move(task),
                          [](std::exception_ptr escaped) { ROLL_CHECK(escaped == nullptr); });
}

}  // namespace roll::io
