#include "daemon/http/feed.hpp"

#include <algorithm>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace roll::http {
namespace {

// Number of ticks without a change after which viewers get a comment line. The comment line shows
// browsers that roll-web still runs. By sending the line, roll-web notices viewers that have left.
constexpr int kQuietTicks = 15;

// Returns the server-sent event of the answer to target number `i`.
std::string event_of(std::size_t i, const std::string& body) {
    std::string text = fmt::format("event: {}\ndata: ", i);
    std::string_view rest = body;
    while (rest.ends_with('\n')) rest.remove_suffix(1);
    for (const char c : rest) {
        text += c;
        if (c == '\n') text += "data: ";
    }
    return text + "\n\n";
}

Reply answer_to_watcher(Site& site, const Request& request) {
    try {
        return site.answer_watched(request);
    } catch (const std::exception& e) {
        spdlog::error("internal error in the answer to {} for a stream: {}", request.target,
                      e.what());
        return error_reply({ErrorCode::Failed, "internal error; roll-web's log has the details"});
    }
}

}  // namespace

Feed::Channel::Channel(boost::asio::io_context& io, Request request_of,
                       std::vector<std::string> targets_of)
    : request(std::move(request_of)),
      targets(std::move(targets_of)),
      bodies(targets.size()),
      events(targets.size()),
      versions(targets.size(), 0),
      woken(io, boost::asio::steady_timer::time_point::max()) {
    const auto found = std::ranges::find_if(targets, is_log);
    if (found == targets.end()) return;
    log = static_cast<std::size_t>(found - targets.begin());
    position = LogPosition(*found);
}

Result<std::shared_ptr<Feed::Channel>> Feed::join(const Request& request,
                                                  const std::vector<std::string>& targets) {
    std::string key = request.authorization + '\n' + request.host + '\n' + request.origin;
    for (const std::string& target : targets) key += '\n' + target;
    const auto found = channels_.find(key);
    if (found != channels_.end())
        if (auto channel = found->second.lock()) return channel;
    std::erase_if(channels_, [](const auto& one) { return one.second.expired(); });
    const auto of_token = std::ranges::count_if(channels_, [&](const auto& one) {
        return one.first.starts_with(request.authorization + '\n');
    });
    if (of_token >= std::ptrdiff_t{kChannelsOfToken})
        return fail(ErrorCode::Refused,
                    fmt::format("this token already watches {} different lists of targets",
                                kChannelsOfToken),
                    "close other pages, poll the answers with GET, or make one token "
                    "per person: rollctl token create");
    if (channels_.size() >= kChannelsMax)
        return fail(ErrorCode::Refused,
                    fmt::format("roll-web already serves {} different streams", kChannelsMax),
                    "poll the answers with GET every few seconds");
    auto channel = std::make_shared<Channel>(io_, request, targets);
    channels_[key] = channel;
    return channel;
}

// Computes all answers except the log.
io::Task<void> Feed::refresh(std::shared_ptr<Channel> channel) {
    if (std::exchange(channel->is_refreshing, true)) co_return;
    auto work = [this, channel]() -> io::Task<std::vector<Reply>> {
        std::vector<Reply> replies;
        Request request = channel->request;
        for (std::size_t i = 0; i < channel->targets.size(); ++i) {
            request.target = channel->targets[i];
            replies.push_back(i == channel->log ? Reply() : answer_to_watcher(site_, request));
        }
        co_return replies;
    };
    std::vector<Reply> replies =
        co_await boost::asio::co_spawn(threads_, work, boost::asio::use_awaitable);
    channel->is_refreshing = false;
    // After some ticks without a change, a viewer gets a comment.
    bool changed = ++channel->quiet_ticks >= kQuietTicks;
    for (std::size_t i = 0; i < replies.size(); ++i)
        if (i != channel->log) changed |= put(*channel, i, replies[i]);
    if (changed || channel->is_refused) wake(*channel);
}

// Reads the text that was added to the log. The log is read separately, because a volume that does
// not respond must not delay the other answers.
io::Task<void> Feed::follow(std::shared_ptr<Channel> channel) {
    if (std::exchange(channel->is_following, true)) co_return;
    auto work = [this, channel]() -> io::Task<std::optional<Reply>> {
        Request request = channel->request;
        request.target = channel->position.next_target();
        Reply reply = answer_to_watcher(site_, request);
        const bool is_new = channel->position.take(Json::parse(*reply.body, nullptr, false));
        co_return is_new ? std::optional(std::move(reply)) : std::nullopt;
    };
    const std::optional<Reply> reply =
        co_await boost::asio::co_spawn(threads_, work, boost::asio::use_awaitable);
    channel->is_following = false;
    if (reply && put(*channel, *channel->log, *reply)) wake(*channel);
}

// Keeps the answer to target number `i`. Returns whether it has changed or the token is no longer
// valid.
bool Feed::put(Channel& channel, std::size_t i, const Reply& reply) {
    channel.is_refused |= reply.status == 401;
    // Several ticks may share the same text, so compare the pointers first.
    if (channel.bodies[i] == reply.body || (channel.bodies[i] && *channel.bodies[i] == *reply.body))
        return channel.is_refused;
    channel.bodies[i] = reply.body;
    channel.events[i] = std::make_shared<const std::string>(event_of(i, *reply.body));
    ++channel.versions[i];
    return true;
}

void Feed::wake(Channel& channel) {
    channel.quiet_ticks = 0;
    ++channel.round;
    channel.woken.cancel();
}

io::Task<void> Feed::run() {
    const auto token = boost::asio::as_tuple(boost::asio::use_awaitable);
    boost::asio::steady_timer timer(io_);
    for (;;) {
        timer.expires_after(kTick);
        const auto [error] = co_await timer.async_wait(token);
        if (error) co_return;
        std::erase_if(channels_, [](const auto& one) { return one.second.expired(); });
        std::vector<std::shared_ptr<Channel>> watched;
        for (const auto& [key, channel] : channels_)
            if (auto live = channel.lock()) watched.push_back(std::move(live));
        // Start a coroutine for each channel, so that a channel with slow answers does not delay
        // the other channels.
        for (std::shared_ptr<Channel>& channel : watched) {
            if (channel->log) io::spawn(io_, follow(channel));
            io::spawn(io_, refresh(std::move(channel)));
        }
    }
}

}  // namespace roll::http
