#include "worker/train/comm/local_fabric.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <thread>

#include "common/check.hpp"

namespace roll::train {

LocalFabric::LocalFabric(int ranks, LocalOptions options)
    : ranks_(ranks),
      options_(std::move(options)),
      baton_(ranks, options_.seed) {}

std::unique_ptr<Communicator> LocalFabric::group(const std::string& name,
                                                 const std::vector<int>& ranks, int rank) {
    const auto place = std::ranges::find(ranks, rank);
    ROLL_CHECK(place != ranks.end());
    LocalGroup& group =
        groups_.try_emplace(name, static_cast<int>(ranks.size()), name).first->second;
    ROLL_CHECK(group.ranks_.empty() || group.ranks_ == ranks);
    group.ranks_ = ranks;
    group.baton_ = &baton_;
    group.rendezvous_ = options_.rendezvous;
    group.plants_ = options_.plants;
    group.on_plant_ = options_.on_plant;
    return std::make_unique<LocalCommunicator>(group, static_cast<int>(place - ranks.begin()));
}

std::unique_ptr<Communicator> LocalFabric::world(int rank) {
    std::vector<int> all(static_cast<std::size_t>(ranks_));
    std::iota(all.begin(), all.end(), 0);
    return group("world", all, rank);
}

void LocalFabric::run(const std::function<void(int rank)>& rank_main) {
    std::exception_ptr first;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks_; ++rank) {
        threads.emplace_back([&, rank] {
            baton_.enter(rank);
            try {
                rank_main(rank);
            } catch (...) {
                if (!first) first = std::current_exception();
            }
            baton_.leave(rank);
        });
    }
    baton_.start();
    for (std::thread& thread : threads) thread.join();
    if (first) std::rethrow_exception(first);
}

}  // namespace roll::train
