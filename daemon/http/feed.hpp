// Sends the answers that browsers watch as server-sent events. Each watched answer is computed once
// a second for all its viewers, and sent only if it changed. A slow viewer misses answers that are
// outdated by the time it can receive the next one. A stream of a log has only the text that is
// added; a viewer that missed some text requests it.
//
// The viewers of the same answers with the same token share a channel.
//
// All functions run on the context's thread. Answers are computed on the pool's threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/stream_traits.hpp>

#include "common/io/task.hpp"
#include "daemon/http/log_position.hpp"
#include "daemon/http/site.hpp"

namespace roll::http {

class Feed {
  public:
    struct Channel;

    static constexpr std::size_t kChannelsMax = 1024;    // maximum number of channels
    static constexpr std::size_t kChannelsOfToken = 64;  // maximum number of channels of one token
    static constexpr auto kRetryAfter = std::chrono::seconds(5);  // header Retry-After of a refusal
    static constexpr auto kTick = std::chrono::seconds(1);
    static constexpr auto kPatience = std::chrono::seconds(30);  // longest time to send an event

    Feed(boost::asio::io_context& io, boost::asio::thread_pool& threads, Site& site)
        : io_(io),
          threads_(threads),
          site_(site) {}

    // Computes the watched answers each second. Returns only if the context stops.
    io::Task<void> run();

    // Returns the channel of the answers to the GET requests for `targets`. `request` is the
    // viewer's request, whose token, host and origin are used. Fails with Refused if the channel
    // does not exist and there are too many channels.
    Result<std::shared_ptr<Channel>> join(const Request& request,
                                          const std::vector<std::string>& targets);

    // Sends the answers of the channel until the viewer leaves or its token becomes invalid.
    template <class Stream>
    io::Task<void> serve(Stream& stream, std::shared_ptr<Channel> channel);

  private:
    using Text = std::shared_ptr<const std::string>;

    io::Task<void> refresh(std::shared_ptr<Channel> channel);
    io::Task<void> follow(std::shared_ptr<Channel> channel);
    static bool put(Channel& channel, std::size_t i, const Reply& reply);
    static void wake(Channel& channel);

    boost::asio::io_context& io_;
    boost::asio::thread_pool& threads_;
    Site& site_;
    // channels by token, host, origin and targets; a channel ends with its last viewer
    std::map<std::string, std::weak_ptr<Channel>> channels_;
};

// The answers that viewers with the same token watch.
struct Feed::Channel {
    Channel(boost::asio::io_context& io, Request request_of, std::vector<std::string> targets_of);

    Request request;
    std::vector<std::string> targets;
    std::vector<Text> bodies;             // newest answer for each target
    std::vector<Text> events;             // each answer as a server-sent event
    std::vector<std::uint64_t> versions;  // number of changes of each answer
    bool is_refused = false;              // true if the token is no longer valid
    bool is_refreshing = false;           // true while its answers are computed
    std::optional<std::size_t> log{};     // index of the log in `targets`; nullopt: none
    LogPosition position{};
    bool is_following = false;        // true while the log is read
    std::uint64_t round = 0;          // incremented when there is something to send to the viewers
    boost::asio::steady_timer woken;  // never expires; cancelling it wakes the viewers
    int quiet_ticks = 0;
};

template <class Stream>
io::Task<void> Feed::serve(Stream& stream, std::shared_ptr<Channel> channel) {
    const auto token = boost::asio::as_tuple(boost::asio::use_awaitable);
    if (channel->round == 0 && channel->log) io::spawn(io_, follow(channel));
    if (channel->round == 0) co_await refresh(channel);
    std::uint64_t round = 0;
    std::vector<std::uint64_t> sent(channel->targets.size(), 0);
    static const Text beat = std::make_shared<const std::string>(": still here\n\n");
    while (!channel->is_refused) {
        if (round == channel->round) co_await channel->woken.async_wait(token);
        round = channel->round;
        std::vector<Text> texts;
        for (std::size_t i = 0; i < sent.size(); ++i) {
            if (sent[i] == channel->versions[i]) continue;
            sent[i] = channel->versions[i];
            texts.push_back(channel->events[i]);
        }
        if (texts.empty()) texts.push_back(beat);
        std::vector<boost::asio::const_buffer> buffers;
        for (const Text& text : texts) buffers.emplace_back(text->data(), text->size());
        boost::beast::get_lowest_layer(stream).expires_after(kPatience);
        const auto [failed, size] = co_await boost::asio::async_write(stream, buffers, token);
        if (failed) co_return;
    }
}

}  // namespace roll::http
