#include "common/io/zmq_reader.hpp"

#include <tuple>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace roll::io {
namespace asio = boost::asio;

ZmqReader::ZmqReader(asio::io_context& context, ZmqSocket socket)
    : socket_(std::move(socket)),
      descriptor_(context, socket_.descriptor()) {}

ZmqReader::~ZmqReader() {
    descriptor_.release();  // libzmq closes the descriptor
}

Task<bool> ZmqReader::readable() {
    const auto token = asio::as_tuple(asio::use_awaitable);
    co_await asio::post(asio::use_awaitable);
    while (!stopped_ && !socket_.input_ready()) {
        // Wait until libzmq signals the descriptor, or until look_again() or stop() is called.
        // After this, the loop checks for input.
        co_await descriptor_.async_wait(asio::posix::stream_descriptor::wait_read, token);
    }
    co_return !stopped_;
}

void ZmqReader::stop() {
    stopped_ = true;
    descriptor_.cancel();
}

void ZmqReader::look_again() {
    if (socket_.input_ready()) descriptor_.cancel();
}

}  // namespace roll::io
