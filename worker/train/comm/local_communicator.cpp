#include "worker/train/comm/local_communicator.hpp"

#include <algorithm>
#include <span>
#include <string_view>

#include <ATen/ATen.h>

#include "worker/train/comm/baton.hpp"

namespace roll::train {
namespace {

using Kind = Transfer::Kind;

std::size_t hash_of(const at::Tensor& tensor) {
    const at::Tensor on_cpu = tensor.cpu();
    return std::hash<std::string_view>()(
        {static_cast<const char*>(on_cpu.const_data_ptr()), on_cpu.nbytes()});
}

// The value of each byte of an output until wait(). Each element of a floating-point type is then a
// NaN. Do not use tensor operations to write and to compare the bytes: for such small tensors, they
// take several times as long as plain loops.
constexpr unsigned char kPoison = 0xFF;

void poison(const at::Tensor& tensor) {
    const at::Tensor bytes = tensor.is_cpu() ? tensor : at::empty_like(tensor, at::kCPU);
    std::fill_n(static_cast<unsigned char*>(bytes.mutable_data_ptr()), bytes.nbytes(), kPoison);
    if (!tensor.is_cpu()) tensor.copy_(bytes);
}

bool is_poison(const at::Tensor& tensor) {
    const at::Tensor on_cpu = tensor.cpu();
    const auto* const bytes = static_cast<const unsigned char*>(on_cpu.const_data_ptr());
    return std::ranges::all_of(std::span(bytes, tensor.nbytes()),
                               [](unsigned char byte) { return byte == kPoison; });
}

// Returns true if the transfer writes its output over its input.
bool overlap(const Transfer& transfer) {
    const auto begin = [](const at::Tensor& tensor) {
        return static_cast<const char*>(tensor.const_data_ptr());
    };
    const at::Tensor &in = transfer.in, &out = transfer.out;
    return out.defined() && begin(in) < begin(out) + out.nbytes() &&
           begin(out) < begin(in) + in.nbytes();
}

at::Tensor part_of(const at::Tensor& whole, int rank, int ranks) {
    const std::int64_t numel = whole.numel() / ranks;
    return whole.view(-1).narrow(0, rank * numel, numel);
}

std::string details(const Transfer& transfer) {
    const at::Tensor& tensor = transfer.in.defined() ? transfer.in : transfer.out;
    return text(transfer) + " (" + std::to_string(tensor.nbytes()) + " bytes, " +
           at::toString(tensor.scalar_type()) + ")";
}

bool agree(const Transfer& a, const Transfer& b) {
    return a.kind == b.kind && a.tag == b.tag && a.reduce == b.reduce && a.peer == b.peer &&
           a.in.nbytes() == b.in.nbytes() && a.in.scalar_type() == b.in.scalar_type();
}

// Returns the elementwise sum (added in rank order) or the elementwise maximum of the inputs.
at::Tensor reduced(const std::vector<at::Tensor>& inputs, Reduce reduce) {
    at::Tensor all = inputs[0].clone();
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
        if (reduce == Reduce::Sum)
            all.add_(inputs[rank]);
        else
            at::maximum_out(all, all, inputs[rank]);
    }
    return all;
}

// Returns the output of a collective. For a reduce-scatter, returns the whole sum.
at::Tensor result_of(const Transfer& transfer, const std::vector<at::Tensor>& inputs) {
    switch (transfer.kind) {
        case Kind::AllReduce:
        case Kind::ReduceScatter: return reduced(inputs, transfer.reduce);
        case Kind::Broadcast: return inputs[static_cast<std::size_t>(transfer.peer)];
        default: break;
    }
    std::vector<at::Tensor> parts;
    for (const at::Tensor& input : inputs) parts.push_back(input.view(-1));
    return at::cat(parts);
}

}  // namespace

LocalCommunicator::~LocalCommunicator() {
    const std::lock_guard lock(group_.mutex_);
    group_.left_[rank_] = true;
    group_.changed_.notify_all();
}

void LocalCommunicator::fail(const std::string& what) const {
    throw GroupFault("group " + group_.name_ + ": " + what);
}

// Lets other ranks run until is_ready() is true.
void LocalCommunicator::block(Lock& lock, const Transfer& transfer,
                              const std::function<bool()>& is_ready) {
    if (group_.baton_ == nullptr) return group_.changed_.wait(lock, is_ready);
    lock.unlock();
    const auto what = [&] { return "group " + group_.name_ + ": " + details(transfer); };
    group_.baton_->pass(group_.ranks_[rank_], what, is_ready);
    lock.lock();
}

void LocalCommunicator::check_untouched(const Transfer& transfer, std::size_t hash) const {
    if (transfer.in.defined() && !overlap(transfer) && hash_of(transfer.in) != hash)
        fail("the input of " + text(transfer) + " was changed before the transfer was complete");
    if (transfer.out.defined() && !is_poison(transfer.out))
        fail("the output of " + text(transfer) + " was changed before the transfer was complete");
}

at::Tensor LocalCommunicator::with_bugs(const Transfer& transfer, const at::TensorList& inputs,
                                        const at::Tensor& right, const at::Tensor& before) const {
    const auto plant = std::ranges::find_if(
        group_.plants_, [&](const Plant& one) { return one.hits(group_.name_, transfer.tag); });
    if (plant == group_.plants_.end()) return right;
    group_.on_plant_();
    return planted(*plant, {transfer, inputs, rank_, right, before});
}

Communicator::Ticket LocalCommunicator::issue(const Transfer& transfer) {
    Lock lock(group_.mutex_);
    if (group_.baton_ != nullptr) block(lock, transfer, [] { return true; });
    if (transfer.is_collective()) return issue_collective(transfer);
    if (transfer.kind == Kind::Send) {
        send(transfer, lock);
        return 0;
    }
    LocalGroup::Link& link = group_.links_[{transfer.peer, rank_, transfer.tag.site}];
    poison(transfer.out);
    receipts_.emplace(receives_, Receipt{transfer, link.received++});
    group_.changed_.notify_all();
    return receives_--;
}

Communicator::Ticket LocalCommunicator::issue_collective(const Transfer& transfer) {
    const Ticket number = group_.issued_[rank_]++;
    auto [entry, fresh] = group_.collectives_.try_emplace(number);
    LocalGroup::Collective& collective = entry->second;
    const auto ranks = static_cast<std::size_t>(size());
    if (fresh)
        collective = {std::vector<Transfer>(ranks),
                      std::vector<at::Tensor>(ranks),
                      std::vector<std::size_t>(ranks),
                      size(),
                      size(),
                      {},
                      {}};
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const Transfer& other = collective.transfers[rank];
        if (other.in.defined() && !agree(other, transfer))
            fail("collective " + std::to_string(number) + " is " + details(other) + " on rank " +
                 std::to_string(rank) + " and " + details(transfer) + " on rank " +
                 std::to_string(rank_));
    }
    collective.transfers[rank_] = transfer;
    collective.inputs[rank_] = transfer.in.clone();
    collective.hashes[rank_] = hash_of(transfer.in);
    poison(transfer.out);
    if (--collective.missing == 0) {
        collective.result = result_of(transfer, collective.inputs);
        collective.before = std::exchange(group_.last_[{transfer.tag.site, transfer.in.numel()}],
                                          collective.result);
        group_.changed_.notify_all();
    }
    return number;
}

void LocalCommunicator::send(const Transfer& transfer, Lock& lock) {
    LocalGroup::Link& link = group_.links_[{rank_, transfer.peer, transfer.tag.site}];
    const Ticket number = link.sent++;
    const at::Tensor copy = transfer.in.clone();
    link.messages.emplace(number, LocalGroup::Message{transfer, copy, hash_of(transfer.in),
                                                      std::exchange(link.last, copy)});
    group_.changed_.notify_all();
    if (!group_.rendezvous_) return;
    block(lock, transfer, [&] { return link.received > number || group_.left_[transfer.peer]; });
}

void LocalCommunicator::wait(Ticket ticket) {
    Lock lock(group_.mutex_);
    if (ticket < 0)
        await_message(receipts_.extract(ticket).mapped(), lock);
    else
        await_ranks(ticket, lock);
}

void LocalCommunicator::await_message(const Receipt& receipt, Lock& lock) {
    const Transfer& transfer = receipt.transfer;
    LocalGroup::Link& link = group_.links_[{transfer.peer, rank_, transfer.tag.site}];
    const auto has_come = [&] { return link.messages.contains(receipt.number); };
    block(lock, transfer, [&] { return has_come() || group_.left_[transfer.peer]; });
    if (!has_come())
        throw PeerLost("rank " + std::to_string(transfer.peer) +
                       " stopped before it sent its message");
    const auto [sent, input, hash, before] = link.messages.extract(receipt.number).mapped();
    if (sent.tag != transfer.tag || sent.in.nbytes() != transfer.out.nbytes() ||
        sent.in.scalar_type() != transfer.out.scalar_type())
        fail("message " + std::to_string(receipt.number) + " from rank " +
             std::to_string(transfer.peer) + " to rank " + std::to_string(rank_) + " is sent as " +
             details(sent) + " and received as " + details(transfer));
    check_untouched(sent, hash);
    check_untouched(transfer, 0);
    transfer.out.view(-1).copy_(with_bugs(transfer, {}, input, before).view(-1));
}

void LocalCommunicator::await_ranks(Ticket ticket, Lock& lock) {
    LocalGroup::Collective& collective = group_.collectives_.at(ticket);
    const auto absent = [&] {
        for (int rank = 0; rank < size(); ++rank)
            if (group_.left_[rank] && group_.issued_[rank] <= ticket) return rank;
        return -1;
    };
    const Transfer transfer = collective.transfers[rank_];
    block(lock, transfer, [&] { return collective.missing == 0 || absent() >= 0; });
    if (collective.missing > 0)
        throw PeerLost("rank " + std::to_string(absent()) + " left the group");
    check_untouched(transfer, collective.hashes[rank_]);
    const bool is_part = transfer.kind == Kind::ReduceScatter;
    const at::Tensor all =
        with_bugs(transfer, collective.inputs, collective.result, collective.before);
    transfer.out.view(-1).copy_(is_part ? part_of(all, rank_, size()) : all.view(-1));
    if (--collective.unread == 0) group_.collectives_.erase(ticket);
}

}  // namespace roll::train
