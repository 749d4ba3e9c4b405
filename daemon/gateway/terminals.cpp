#include "daemon/gateway/terminals.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/base64.hpp"

namespace roll::gateway {
namespace {

constexpr std::size_t kTerminalsMax = 64;
constexpr std::ptrdiff_t kTerminalsOfUserMax = 16;
constexpr auto kForgetAfter = 2 * protocol::kTerminalPatience;
// How long to wait for the last output of a terminal's program after the attempt has ended
constexpr auto kLastOutput = std::chrono::seconds(5);
constexpr auto kWaitMax = std::chrono::milliseconds(60'000);

}  // namespace

Result<std::uint64_t> Terminals::open(const Opening& opening, Instant now) {
    const auto own = std::ranges::count_if(
        terminals_, [&](const auto& one) { return one.second.user == opening.user; });
    if (terminals_.size() >= kTerminalsMax || own >= kTerminalsOfUserMax)
        return fail(
            ErrorCode::Refused,
            fmt::format("{} terminals are open, {} of these by {}; allowed: {} in all and "
                        "{} for each user",
                        terminals_.size(), own, opening.user, kTerminalsMax, kTerminalsOfUserMax),
            "close a terminal, or use `rollctl submit`");
    const std::uint64_t id = ++last_id_;
    Terminal& terminal = terminals_[id];
    terminal.user = opening.user;
    terminal.attempt = opening.attempt;
    terminal.worker = opening.worker;
    terminal.polled_at = now;
    protocol::TerminalOrder order;
    order.start = opening.start;
    order.rows = opening.rows;
    order.columns = opening.columns;
    grant(id, terminal, std::move(order));
    return id;
}

// Sends an order to the worker. The order limits the output, so that at most kTerminalWindow bytes
// are sent but not yet read by the client.
void Terminals::grant(std::uint64_t id, const Terminal& terminal, protocol::TerminalOrder order) {
    order.terminal = id;
    order.attempt = terminal.attempt;
    order.limit = terminal.begin + protocol::kTerminalWindow;
    orders_.push_back({terminal.worker, std::move(order)});
}

Result<Terminals::Terminal*> Terminals::find(const std::string& user, std::uint64_t id) {
    const auto found = terminals_.find(id);
    if (found == terminals_.end() || found->second.user != user)
        return fail(ErrorCode::NotFound,
                    "the terminal is gone: rolld was restarted, or the connection was lost for too "
                    "long");
    return &found->second;
}

Result<std::uint64_t> Terminals::write(const std::string& user,
                                       const protocol::ShellWriteArgs& args, Instant now) {
    ROLL_TRY(Terminal* const terminal, find(user, args.terminal));
    auto input = from_base64(args.data);
    if (!input)
        return fail(ErrorCode::InvalidArgument, "`data` is not base64; encode the input as base64");
    if (!input->empty() && args.at != terminal->written)
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("`at` is {}; allowed: {}, the number of input bytes received so far",
                        args.at, terminal->written));
    if (terminal->written + input->size() > terminal->taken + protocol::kTerminalWindow)
        return fail(
            ErrorCode::Refused,
            fmt::format("{} bytes of input wait until the program reads them; allowed: at most {}",
                        terminal->written + input->size() - terminal->taken,
                        protocol::kTerminalWindow),
            "send more once `taken` has grown");
    terminal->polled_at = now;
    protocol::TerminalOrder order;
    order.at = terminal->written;
    terminal->written += input->size();
    order.input = *std::move(input);
    order.end_of_input = args.end;
    order.close = args.close;
    order.rows = std::clamp(args.rows, 0, 10'000);
    order.columns = std::clamp(args.columns, 0, 10'000);
    grant(args.terminal, *terminal, std::move(order));
    const std::uint64_t taken = terminal->taken;
    if (args.close) terminals_.erase(args.terminal);
    return taken;
}

Result<void> Terminals::read(const std::string& user, const protocol::ShellReadArgs& args,
                             const Peer& peer, std::uint64_t id, Instant now) {
    ROLL_TRY(Terminal* const terminal, find(user, args.terminal));
    std::uint64_t begin = terminal->begin;
    std::size_t read = 0;
    for (; read < terminal->chunks.size() && begin < args.from; ++read)
        begin += terminal->chunks[read].bytes.size();
    if (begin != args.from)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("`from` is {}; allowed: the number of output bytes received so far",
                                args.from));
    terminal->chunks.erase(terminal->chunks.begin(),
                           terminal->chunks.begin() + static_cast<std::ptrdiff_t>(read));
    terminal->begin = begin;
    terminal->polled_at = now;
    constexpr std::size_t kReadersMax = 4;
    if (terminal->waiting.size() >= kReadersMax)
        return fail(ErrorCode::Refused,
                    fmt::format("{} requests wait for the output of this terminal; allowed: {}",
                                terminal->waiting.size(), kReadersMax));
    const auto wait = std::chrono::milliseconds(std::max(args.wait_ms, 0));
    terminal->waiting.push_back(
        {peer, id, now + std::min<std::chrono::milliseconds>(wait, kWaitMax)});
    grant(args.terminal, *terminal, {});
    return {};
}

WorkerId Terminals::worker_of(std::uint64_t terminal) const {
    const auto found = terminals_.find(terminal);
    return found == terminals_.end() ? WorkerId{} : found->second.worker;
}

void Terminals::hear(protocol::TerminalNews news) {
    const auto found = terminals_.find(news.terminal);
    if (found == terminals_.end()) return;
    Terminal& terminal = found->second;
    if (terminal.ended()) return;
    terminal.taken = std::max(terminal.taken, std::min(news.taken, terminal.written));
    const bool too_much = news.at + news.output.size() > terminal.begin + protocol::kTerminalWindow;
    if (news.at != terminal.received || too_much) {
        terminal.trouble = "output of the program was lost";
        protocol::TerminalOrder order;
        order.close = true;
        return grant(news.terminal, terminal, std::move(order));
    }
    terminal.received += news.output.size();
    if (!news.output.empty()) terminal.chunks.push_back({std::move(news.output), news.errors});
    terminal.exit = news.exit;
    terminal.trouble = std::move(news.trouble);
}

Json Terminals::reply_of(const Terminal& terminal) {
    Json chunks = Json::array();
    for (const Chunk& chunk : terminal.chunks)
        chunks.push_back({{"data", to_base64(chunk.bytes)}, {"errors", chunk.errors}});
    Json reply = {{"schema", protocol::ShellReadArgs::kOperation.reply},
                  {"chunks", std::move(chunks)},
                  {"end", terminal.received},
                  {"taken", terminal.taken}};
    if (terminal.exit) reply["exit"] = *terminal.exit;
    if (!terminal.trouble.empty()) reply["trouble"] = terminal.trouble;
    return reply;
}

std::vector<Terminals::Reply> Terminals::take_replies(Instant now) {
    std::vector<Reply> replies;
    for (auto it = terminals_.begin(); it != terminals_.end();) {
        Terminal& terminal = it->second;
        const bool ready = terminal.is_ready();
        const std::size_t before = replies.size();
        std::erase_if(terminal.waiting, [&](Waiting& waiting) {
            if (!ready && now < waiting.until) return false;
            replies.push_back({std::move(waiting.peer), waiting.id, reply_of(terminal)});
            terminal.told = terminal.taken;
            return true;
        });
        const bool told_end = terminal.ended() && replies.size() > before;
        it = told_end ? terminals_.erase(it) : std::next(it);
    }
    return replies;
}

void Terminals::tidy(const core::State& state, Instant now) {
    std::erase_if(terminals_,
                  [&](const auto& one) { return now - one.second.polled_at >= kForgetAfter; });
    for (auto& [id, terminal] : terminals_) {
        const auto job = state.jobs.find(terminal.attempt.job);
        const bool runs = job != state.jobs.end() && job->second.attempt &&
                          job->second.attempt->token == terminal.attempt.token;
        if (runs || terminal.ended()) continue;
        if (!terminal.lost_at) terminal.lost_at = now + kLastOutput;
        if (now >= *terminal.lost_at) terminal.trouble = "the job's attempt has ended";
    }
}

std::optional<Instant> Terminals::due() const {
    std::optional<Instant> due;
    const auto add = [&](Instant at) { due = due ? std::min(*due, at) : at; };
    for (const auto& [id, terminal] : terminals_) {
        add(terminal.polled_at + kForgetAfter);
        if (terminal.lost_at && !terminal.ended()) add(*terminal.lost_at);
        for (const Waiting& waiting : terminal.waiting) add(waiting.until);
    }
    return due;
}

}  // namespace roll::gateway
