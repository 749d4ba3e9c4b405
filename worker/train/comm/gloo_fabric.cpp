// The installed Gloo headers, with which this file is compiled, are older than the Gloo inside
// LibTorch. These headers suffice to compile the header of ProcessGroupGloo, but this file must not
// call or instantiate anything that they declare.

#include "worker/train/comm/gloo_fabric.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "common/check.hpp"
#include "common/files.hpp"
#include "worker/train/process/memory.hpp"

namespace roll::train {
namespace {

std::optional<StoreAddress> parse(const std::string& text) {
    std::istringstream line(text);
    StoreAddress address;
    if (line >> address.host >> address.port >> address.nonce) return address;
    return std::nullopt;
}

// Calls c10d. If the call fails, throws PeerLost, because every failure means that a peer cannot be
// reached.
template <class Call>
auto reaching_peers(const std::string& what, const Call& call) {
    try {
        return call();
    } catch (const std::exception& error) {
        const std::string reason = error.what();
        throw PeerLost(what + ": " + reason.substr(0, reason.find('\n')));
    }
}

using Work = c10::intrusive_ptr<c10d::Work>;

// Tags of the messages of an all-gather and of a reduce-scatter. The tag of any other message is a
// Site, which is a smaller number, so the messages are not confused.
constexpr int kGatherTag = 1000, kScatterTag = 1001;

// Keeps the tensors of each send until the send is complete. c10d reports the completion of a send
// only to a caller that waits for the send. Therefore, one thread waits for all sends, one after
// the other.
class Sends {
  public:
    Sends() : thread_([this] { release_all(); }) {}
    Sends(const Sends&) = delete;
    Sends& operator=(const Sends&) = delete;
    ~Sends() {
        {
            const std::lock_guard lock(mutex_);
            ended_ = true;
            if (!works_.empty()) works_.front()->abort();
        }
        changed_.notify_one();
        thread_.join();
    }

    void add(Work work) {
        {
            const std::lock_guard lock(mutex_);
            works_.push_back(std::move(work));
        }
        changed_.notify_one();
    }

  private:
    void release_all() {
        std::unique_lock lock(mutex_);
        while (true) {
            changed_.wait(lock, [&] { return ended_ || !works_.empty(); });
            if (ended_) return;
            const Work oldest = works_.front();
            lock.unlock();
            const bool sent = is_sent(*oldest);
            lock.lock();
            if (!sent) return;
            works_.pop_front();
        }
    }

    // Waits without a limit. The waits of the training thread have a limit, and report a lost peer.
    static bool is_sent(c10d::Work& work) {
        try {
            return work.wait(std::chrono::hours(24 * 365));
        } catch (const std::exception&) {
            return false;
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Work> works_;  // works in progress, the oldest first
    bool ended_ = false;
    std::thread thread_;  // last member, because the thread uses the other members
};

class GlooCommunicator final : public Communicator {
  public:
    GlooCommunicator(const GroupPlace& place, c10::intrusive_ptr<c10d::ProcessGroupGloo> group)
        : name_(place.name),
          group_(std::move(group)),
          rank_(place.rank),
          size_(place.size),
          timeout_(place.timeout) {}

    int rank() const override { return rank_; }
    int size() const override { return size_; }

    Ticket issue(const Transfer& transfer) override {
        const Ticket ticket = issued_++;
        Running running{transfer, {}, {}};
        reaching_peers(name_ + ' ' + text(transfer), [&] { start(running); });
        if (transfer.kind == Transfer::Kind::Send)
            sends_.add(std::move(running.works[0]));
        else
            running_.emplace(ticket, std::move(running));
        return ticket;
    }

    void wait(Ticket ticket) override {
        const Running running = std::move(running_.extract(ticket).mapped());
        reaching_peers(name_ + ' ' + text(running.transfer), [&] {
            for (const Work& work : running.works) work->wait(timeout_);
        });
        if (running.parts.defined()) add_parts(running);
    }

  private:
    struct Running {
        Transfer transfer;
        std::vector<Work> works;
        // for a reduce-scatter: the other ranks' parts that this rank must add up, in the order of
        // the ranks
        at::Tensor parts;
    };

    void start(Running& running) {
        const Transfer& transfer = running.transfer;
        const int site = static_cast<int>(transfer.tag.site);
        std::vector<at::Tensor> in{transfer.in}, out{transfer.out};
        const auto add = [&](Work work) { running.works.push_back(std::move(work)); };
        switch (transfer.kind) {
            case Transfer::Kind::AllReduce: {
                c10d::AllreduceOptions options;
                if (transfer.reduce == Reduce::Max) options.reduceOp = c10d::ReduceOp::MAX;
                return add(group_->allreduce(out, options));
            }
            case Transfer::Kind::AllGather: return start_gather(running);
            case Transfer::Kind::ReduceScatter: return start_scatter(running);
            case Transfer::Kind::Broadcast: {
                c10d::BroadcastOptions options;
                options.rootRank = transfer.peer;
                return add(group_->broadcast(out, options));
            }
            case Transfer::Kind::Send: return add(group_->send(in, transfer.peer, site));
            case Transfer::Kind::Receive: return add(group_->recv(out, transfer.peer, site));
        }
    }

    // Each rank sends its part to all others. Do not use LibTorch's all-gather over Gloo, because
    // each of its threads receives into a second copy of the whole output, and keeps the memory of
    // the copy.
    void start_gather(Running& running) {
        const at::Tensor all = running.transfer.out.view({size_, -1});
        std::vector<at::Tensor> own{running.transfer.in.view(-1)};
        for (int i = 1; i < size_; ++i) {
            const int from = (rank_ + size_ - i) % size_, to = (rank_ + i) % size_;
            std::vector<at::Tensor> part{all[from]};
            running.works.push_back(group_->recv(part, from, kGatherTag));
            running.works.push_back(group_->send(own, to, kGatherTag));
        }
        all[rank_].copy_(own[0]);
    }

    // Each rank sends each part of its input to the part's owner. Do not use LibTorch's
    // reduce-scatter over Gloo: it does an all-reduce of the whole input.
    void start_scatter(Running& running) {
        const at::Tensor parts = running.transfer.in.view({size_, -1});
        const TensorUseScope exchange(TensorUse::Exchange);
        running.parts = at::empty({size_ - 1, parts.size(1)}, parts.options());
        for (int i = 1; i < size_; ++i) {
            const int from = (rank_ + size_ - i) % size_, to = (rank_ + i) % size_;
            std::vector<at::Tensor> received{running.parts[from < rank_ ? from : from - 1]};
            std::vector<at::Tensor> sent{parts[to]};
            running.works.push_back(group_->recv(received, from, kScatterTag));
            running.works.push_back(group_->send(sent, to, kScatterTag));
        }
    }

    // Adds up the parts in rank order, so that the sum does not depend on the time of arrival.
    void add_parts(const Running& running) {
        const at::Tensor own = running.transfer.in.view({size_, -1})[rank_];
        const at::Tensor out = running.transfer.out.view(-1);
        for (int rank = 0; rank < size_; ++rank) {
            const at::Tensor part =
                rank == rank_ ? own : running.parts[rank < rank_ ? rank : rank - 1];
            rank == 0 ? out.copy_(part) : out.add_(part);
        }
    }

    const std::string name_;
    const c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
    const int rank_, size_;
    const std::chrono::milliseconds timeout_;
    Ticket issued_ = 0;
    std::map<Ticket, Running> running_;
    Sends sends_;
};

c10::intrusive_ptr<c10d::Store> serve_store(const FabricOptions& options) {
    c10d::TCPStoreOptions store_options;
    store_options.port = 0;
    store_options.isServer = true;
    store_options.waitWorkers = false;
    store_options.timeout = options.connect_timeout;
    auto store = c10::make_intrusive<c10d::TCPStore>(options.host, store_options);
    const auto written =
        write_rendezvous(options.rendezvous_file, {options.host, store->getPort(), options.nonce});
    if (!written) throw std::runtime_error(written.error().message);
    return store;
}

c10::intrusive_ptr<c10d::Store> join_store(const FabricOptions& options) {
    const auto address =
        await_rendezvous(options.rendezvous_file, options.nonce, options.connect_timeout);
    if (!address) throw PeerLost(address.error().message);
    c10d::TCPStoreOptions store_options;
    store_options.port = address->port;
    store_options.waitWorkers = false;
    store_options.timeout = options.connect_timeout;
    return reaching_peers("the store of rank 0", [&] {
        return c10::make_intrusive<c10d::TCPStore>(address->host, store_options);
    });
}

}  // namespace

Result<void> write_rendezvous(const std::filesystem::path& file, const StoreAddress& address) {
    return write_file_atomically(
        file, address.host + ' ' + std::to_string(address.port) + ' ' + address.nonce + '\n');
}

Result<StoreAddress> await_rendezvous(const std::filesystem::path& file, const std::string& nonce,
                                      std::chrono::milliseconds timeout) {
    constexpr std::chrono::milliseconds kPause{10};
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (true) {
        if (const Result<std::string> text = read_file(file)) {
            const std::optional<StoreAddress> address = parse(*text);
            if (address && address->nonce == nonce) return *address;
        }
        if (std::chrono::steady_clock::now() >= deadline) break;
        std::this_thread::sleep_for(kPause);
    }
    return fail(ErrorCode::Unavailable, "rank 0 did not write " + file.string() + " with nonce " +
                                            nonce + " within " + std::to_string(timeout.count()) +
                                            " ms");
}

struct GlooFabric::Store {
    c10::intrusive_ptr<c10d::Store> store;
};

GlooFabric::GlooFabric(const FabricOptions& options) : options_(options) {
    const auto store = options.rank == 0 ? serve_store(options) : join_store(options);
    store_ = std::make_unique<Store>(
        Store{c10::make_intrusive<c10d::PrefixStore>(options.prefix + '/' + options.nonce, store)});
}

GlooFabric::~GlooFabric() = default;

GroupPlace GlooFabric::place(const std::string& name, const std::vector<int>& ranks) const {
    const auto place = std::find(ranks.begin(), ranks.end(), options_.rank);
    ROLL_CHECK(place != ranks.end());
    const int rank = static_cast<int>(place - ranks.begin());
    const auto store = c10::make_intrusive<c10d::PrefixStore>(name, store_->store);
    return {name, rank, static_cast<int>(ranks.size()), options_.collective_timeout,
            [store](const std::string& key, const std::vector<std::uint8_t>& given) {
                return reaching_peers("the store of rank 0", [&] {
                    if (given.empty()) return store->get(key);
                    store->set(key, given);
                    return given;
                });
            }};
}

Board GlooFabric::board() const {
    static constexpr std::chrono::seconds kPatience{5};
    const auto connect = [&] {
        return reaching_peers("the store of rank 0", [&] {
            auto own = store_->store->clone();
            own->setTimeout(kPatience);
            return own;
        });
    };
    const auto set = [store = connect()](const std::string& key, const std::string& text) {
        try {
            store->set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
        } catch (const std::exception&) {
            // The store is gone. The ranks notice this because their transfers fail.
        }
    };
    // Read on a separate thread, because a read blocks forever while rank 0 is stopped.
    const auto get = [reader = connect()](const std::string& key) -> std::optional<std::string> {
        const auto answer = std::make_shared<std::promise<std::optional<std::string>>>();
        std::thread([reader, key, answer] {
            try {
                const std::vector<std::uint8_t> bytes = reader->get(key);
                answer->set_value(std::string(bytes.begin(), bytes.end()));
            } catch (const std::exception&) {
                answer->set_value(std::nullopt);
            }
        }).detach();
        std::future<std::optional<std::string>> text = answer->get_future();
        if (text.wait_for(kPatience) != std::future_status::ready) return std::nullopt;
        return text.get();
    };
    return {set, get};
}

std::unique_ptr<Communicator> GlooFabric::group(const std::string& name,
                                                const std::vector<int>& ranks) {
    const GroupPlace own = place(name, ranks);
    return reaching_peers("connecting group " + name, [&] {
        const auto gloo = c10d::ProcessGroupGloo::Options::create(options_.connect_timeout);
        gloo->devices.push_back(
            options_.interface.empty()
                ? c10d::ProcessGroupGloo::createDeviceForHostname(options_.host)
                : c10d::ProcessGroupGloo::createDeviceForInterface(options_.interface));
        auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(
            c10::make_intrusive<c10d::PrefixStore>(name, store_->store), own.rank, own.size, gloo);
        group->setTimeout(options_.collective_timeout);
        return std::make_unique<GlooCommunicator>(own, std::move(group));
    });
}

}  // namespace roll::train
