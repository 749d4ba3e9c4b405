#include "worker/plan/pipeline_check.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

namespace roll::plan {
namespace {

Error wrong(int rank, const Op& op, const std::string& what) {
    return {ErrorCode::InvalidArgument,
            "rank " + std::to_string(rank) + ", " + to_string(op) + ": " + what};
}

// Checks the ops of one rank. Each op must occur once. Each micro-batch must run forward, then the
// input-gradient pass of backward, then the weight-gradient pass.
std::optional<Error> check_rank(const PipelineSchedule& s, int rank) {
    // number of ops done, by chunk and micro-batch
    std::vector<int> done(static_cast<std::size_t>(s.vp) * s.microbatches);
    for (const Op& op : s.ranks[rank]) {
        if (op.chunk < 0 || op.chunk >= s.vp || op.microbatch < 0 ||
            op.microbatch >= s.microbatches)
            return wrong(rank, op, "this chunk or micro-batch does not exist");
        if (done[op.chunk * s.microbatches + op.microbatch]++ != static_cast<int>(op.kind))
            return wrong(rank, op, "this operation is repeated or out of order");
    }
    const auto unfinished = std::ranges::find_if(done, [](int count) { return count < 3; });
    if (unfinished == done.end()) return std::nullopt;
    const auto index = static_cast<int>(unfinished - done.begin());
    const Op missing{static_cast<OpKind>(*unfinished), index / s.microbatches,
                     index % s.microbatches};
    return wrong(rank, missing, "this operation is missing");
}

// A send or a receive that a rank has issued.
struct Message {
    int rank, peer;
    bool is_send;
    // for a send, the sender's op that computes the tensor; for a receive, the receiver's op that
    // needs the tensor
    Op op;
    int to_stage;  // stage that receives the message
    double issued = 0;

    bool matches(const Message& other) const {
        return op.kind == other.op.kind && op.microbatch == other.op.microbatch &&
               to_stage == other.to_stage;
    }
    std::string text() const {
        return "rank " + std::to_string(rank) + "'s " +
               (is_send ? "send of " + to_string(op) + " to rank "
                        : "receive for " + to_string(op) + " from rank ") +
               std::to_string(peer);
    }
};

// Identifies one message queue of a rank: (rank, gradients, peer, is_send). A queue delivers its
// messages one after the other. With Transport::Lines::Channels, `peer` is -1.
using LineKey = std::tuple<int, bool, int, bool>;

// Simulates the ranks' clocks and the messages between them.
class Simulation {
  public:
    Simulation(const PipelineSchedule& schedule, const std::vector<Costs>& costs,
               Transport transport)
        : s_(schedule),
          costs_(costs),
          transport_(transport),
          ranks_(schedule.pp) {
        if (costs_.size() < 2)
            costs_.assign(s_.stages(), costs_.empty() ? Costs{} : costs_.front());
        report_.live_max.resize(s_.pp);
        report_.peak_bytes.resize(s_.pp);
        report_.starts.resize(s_.pp);
        report_.ends.resize(s_.pp);
        for (int i = 0; i < s_.pp; ++i) {
            ranks_[i].inputs.resize(s_.ranks[i].size());
        }
    }

    Result<ScheduleReport> run() {
        for (bool moved = true; std::exchange(moved, false);) {
            for (int rank = 0; rank < s_.pp; ++rank) {
                while (step(rank)) moved = true;
                if (error_) return tl::unexpected(std::move(*error_));
            }
        }
        for (int rank = 0; rank < s_.pp; ++rank)
            if (ranks_[rank].next < s_.ranks[rank].size()) return tl::unexpected(deadlock(rank));
        for (const auto& [key, line] : lines_)
            if (!line.empty())
                return tl::unexpected(
                    wrong(line.front().rank, line.front().op, "deadlock: " + cycle(line.front())));
        finish_report();
        return std::move(report_);
    }

  private:
    struct Rank {
        std::size_t next = 0;    // index of the op to run next
        std::size_t posted = 0;  // number of ops whose receive is posted or that need no receive
        // time at which each op's input arrives
        std::vector<std::optional<double>> inputs;
        double clock = 0, work = 0;
        int live = 0;
    };

    int stage_of_op(int rank, const Op& op) const { return s_.stage(rank, op.chunk); }
    static int towards(const Op& op) { return op.kind == OpKind::Forward ? 1 : -1; }
    bool exists(int stage) const { return stage >= 0 && stage < s_.stages(); }

    // Returns true if stage `from` sends a tensor to the next stage in the direction of the op.
    bool sends(int from, const Op& op) const {
        if (op.kind == OpKind::BackwardWeight || !exists(from)) return false;
        return exists(from + towards(op)) &&
               (op.kind == OpKind::Forward || costs_[from].sends_gradients);
    }

    // Returns the stage that sends the op's input; nullopt if the op receives no input.
    std::optional<int> source(int rank, const Op& op) const {
        const int from = stage_of_op(rank, op) - towards(op);
        return sends(from, op) ? std::optional(from) : std::nullopt;
    }

    LineKey line_of(const Message& message) const {
        const bool gradients = message.op.kind != OpKind::Forward;
        if (transport_.lines == Transport::Lines::Channels)
            return {message.rank, gradients, -1, false};
        return {message.rank, gradients, message.peer, message.is_send};
    }

    const Message* head_of(const Message& message) const {
        const auto line = lines_.find(line_of(message));
        return line == lines_.end() || line->second.empty() ? nullptr : &line->second.front();
    }

    Message counterpart(const Message& m) const {
        return {m.peer, m.rank, !m.is_send, m.op, m.to_stage};
    }

    void issue(const Message& message) {
        lines_[line_of(message)].push_back(message);
        transfer(message);
    }

    // Delivers messages from the front of the queue to which `message` belongs. A send and its
    // receive are delivered when both are at the front of their queues. A delivery also removes a
    // message from a queue of the peer. This may bring another message to the front of that queue,
    // so the function then calls itself for that queue.
    void transfer(const Message& message) {
        while (!error_) {
            const Message* const here = head_of(message);
            if (here == nullptr) return;
            const Message other_end = counterpart(*here);
            const Message* const there = head_of(other_end);
            if (there == nullptr || there->peer != here->rank || there->is_send == here->is_send)
                return;
            const Message& sent = here->is_send ? *here : *there;
            const Message& received = here->is_send ? *there : *here;
            if (!sent.matches(received)) {
                error_ = wrong(received.rank, received.op,
                               "would receive the message of another micro-batch: " + sent.text());
                return;
            }
            deliver(sent, received);
            lines_[line_of(other_end)].pop_front();
            lines_[line_of(message)].pop_front();
            transfer(other_end);
        }
    }

    void deliver(const Message& sent, const Message& received) {
        const std::vector<Op>& ops = s_.ranks[received.rank];
        Rank& to = ranks_[received.rank];
        for (std::size_t i = to.next; i < to.posted; ++i)
            if (ops[i] == received.op) to.inputs[i] = std::max(sent.issued, received.issued);
        ++links_[{sent.rank, sent.peer, sent.op.kind != OpKind::Forward}];
    }

    // Posts the receives of the next op and of the `ahead` ops after it.
    void post_receives(int rank) {
        Rank& r = ranks_[rank];
        const std::vector<Op>& ops = s_.ranks[rank];
        const std::size_t end = std::min(ops.size(), r.next + transport_.ahead + 1);
        while (r.posted < end && !error_) {
            const Op& op = ops[r.posted++];
            const std::optional<int> from = source(rank, op);
            if (!from) continue;
            const int peer = s_.home(*from).rank;
            if (peer != rank) issue({rank, peer, false, op, stage_of_op(rank, op), r.clock});
        }
    }

    // Runs the next op of a rank. Returns false if no op is left or the next op's input has not
    // arrived.
    bool step(int rank) {
        Rank& r = ranks_[rank];
        if (error_ || r.next == s_.ranks[rank].size()) return false;
        post_receives(rank);
        if (error_) return false;
        const Op& op = s_.ranks[rank][r.next];
        if (const std::optional<int> from = source(rank, op)) {
            const bool is_local = s_.home(*from).rank == rank;
            const std::optional<double> ready = is_local ? handed_over(rank, op) : r.inputs[r.next];
            if (!ready) return false;
            r.clock = std::max(r.clock, *ready);
        }
        compute(rank, op);
        const int to = stage_of_op(rank, op) + towards(op);
        ++r.next;
        if (!sends(to - towards(op), op)) return true;
        const int peer = s_.home(to).rank;
        if (peer == rank)
            handed_[{to, op.kind, op.microbatch}] = r.clock;
        else
            issue({rank, peer, true, op, to, r.clock});
        return true;
    }

    std::optional<double> handed_over(int rank, const Op& op) const {
        const auto found = handed_.find({stage_of_op(rank, op), op.kind, op.microbatch});
        return found == handed_.end() ? std::nullopt : std::optional(found->second);
    }

    void compute(int rank, const Op& op) {
        Rank& r = ranks_[rank];
        const int stage = stage_of_op(rank, op);
        const Costs& cost = costs_[stage];
        const double times[] = {cost.forward, cost.backward_input, cost.backward_weight};
        const double time = times[static_cast<int>(op.kind)];
        report_.starts[rank].push_back(r.clock);
        r.clock += time;
        r.work += time;
        report_.ends[rank].push_back(r.clock);
        if (op.kind == OpKind::Forward) ++r.live;
        if (op.kind == OpKind::BackwardWeight) --r.live;
        report_.live_max[rank] = std::max(report_.live_max[rank], r.live);
    }

    // Returns the receive that the rank's next op waits for.
    Message awaited(int rank) const {
        const Op& op = s_.ranks[rank][ranks_[rank].next];
        return {rank, s_.home(*source(rank, op)).rank, false, op, stage_of_op(rank, op)};
    }

    Error deadlock(int rank) const {
        const Op& op = s_.ranks[rank][ranks_[rank].next];
        return wrong(
            rank, op,
            "deadlock: the input of this operation never arrives: " + cycle(awaited(rank)));
    }

    // Returns the message that `message` waits for.
    Message blocker(const Message& message) const {
        const Message* const head = head_of(message);
        if (head != nullptr && !(head->is_send == message.is_send && head->op == message.op))
            return *head;  // `message` must wait for an earlier message in its queue
        const Message* const other = head_of(counterpart(message));
        if (other != nullptr && !other->matches(message)) return *other;
        return awaited(message.peer);
    }

    // Follows the chain of messages that wait for each other, starting at `message`. Returns the
    // cycle at the end of this chain.
    std::string cycle(const Message& message) const {
        std::vector<std::string> chain;
        Message at = message;
        for (;;) {
            if (at.peer == at.rank)
                return to_string(at.op) + " takes the result of an operation that rank " +
                       std::to_string(at.rank) + " runs later";
            const auto again = std::ranges::find(chain, at.text());
            if (again != chain.end()) {
                chain.erase(chain.begin(), again);
                break;
            }
            chain.push_back(at.text());
            if (at.is_send && ranks_[at.peer].next == s_.ranks[at.peer].size())
                return at.text() + " has no receive";
            at = blocker(at);
        }
        std::string text;
        for (const std::string& one : chain) text += one + " waits for ";
        return text + chain.front();
    }

    void finish_report() {
        for (int rank = 0; rank < s_.pp; ++rank)
            report_.peak_bytes[rank] = peak_bytes(s_, rank, costs_);
        double work = 0, most = 0;
        for (const Rank& r : ranks_) {
            work += r.work / s_.pp;
            most = std::max(most, r.work);
            report_.makespan = std::max(report_.makespan, r.clock);
        }
        report_.bubble = report_.makespan / work - 1;
        report_.imbalance = most / work;
        for (const auto& [link, messages] : links_) {
            const auto& [from, to, gradients] = link;
            report_.links.push_back({from, to, gradients, messages});
        }
    }

    const PipelineSchedule& s_;
    std::vector<Costs> costs_;
    Transport transport_;
    std::vector<Rank> ranks_;
    std::map<LineKey, std::deque<Message>> lines_;
    // For each (stage, kind, micro-batch): the time at which the op's input was ready, if the
    // neighbouring stage that computed it is on the same rank.
    std::map<std::tuple<int, OpKind, int>, double> handed_;
    std::map<std::tuple<int, int, bool>, std::int64_t> links_;
    std::optional<Error> error_;
    ScheduleReport report_;
};

}  // namespace

std::int64_t peak_bytes(const PipelineSchedule& schedule, int rank, std::span<const Costs> costs) {
    // For each chunk and micro-batch: true if the input-gradient pass ran alone. The rank then
    // holds Costs::after_backward bytes until the weight-gradient pass.
    std::vector<bool> is_halved(static_cast<std::size_t>(schedule.vp) * schedule.microbatches);
    const std::vector<Op>& ops = schedule.ranks[rank];
    std::int64_t bytes = 0, most = 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
        const int stage = schedule.stage(rank, ops[i].chunk);
        const Costs& cost = costs[stage];
        const auto halved =
            is_halved.begin() + ops[i].chunk * schedule.microbatches + ops[i].microbatch;
        switch (ops[i].kind) {
            case OpKind::Forward: bytes += cost.after_forward; break;
            case OpKind::BackwardInput:
                if (halves_together(ops, i, stage > 0 && cost.sends_gradients)) break;
                bytes += cost.after_backward - cost.after_forward;
                *halved = true;
                break;
            case OpKind::BackwardWeight:
                bytes -= *halved ? cost.after_backward : cost.after_forward;
                break;
        }
        most = std::max(most, bytes);
    }
    return most;
}

Result<ScheduleReport> check(const PipelineSchedule& schedule, const std::vector<Costs>& costs,
                             Transport transport) {
    if (std::ssize(schedule.ranks) != schedule.pp)
        return fail(ErrorCode::InvalidArgument,
                    "the schedule must have one list of operations for each of the pp ranks");
    if (costs.size() > 1 && std::ssize(costs) != schedule.stages())
        return fail(ErrorCode::InvalidArgument, "the costs must have an entry for each stage");
    for (int rank = 0; rank < schedule.pp; ++rank)
        if (auto error = check_rank(schedule, rank)) return tl::unexpected(std::move(*error));
    return Simulation(schedule, costs, transport).run();
}

}  // namespace roll::plan
