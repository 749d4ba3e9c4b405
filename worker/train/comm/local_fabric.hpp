// Runs the ranks of a job as threads of one process, one at a time. A seed decides the order in
// which the ranks run. The groups are strict, as local_communicator.hpp describes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/train/comm/baton.hpp"
#include "worker/train/comm/local_communicator.hpp"

namespace roll::train {

struct LocalOptions {
    std::uint64_t seed = 0;   // seed that decides the order in which the ranks run
    bool rendezvous = false;  // true: a send blocks its rank until the receive is issued
    std::vector<Plant> plants = {};
    std::function<void()> on_plant = [] {};  // is called for each transfer that a plant changes
};

class LocalFabric {
  public:
    explicit LocalFabric(int ranks, LocalOptions options = {});

    // Returns the communicator of rank `rank` for the group `name`. `ranks` are the members of the
    // group, and `rank` is one of them. Must be called on the thread of `rank`.
    std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& ranks,
                                        int rank);

    // Returns the communicator of rank `rank` for the group "world", which has all ranks.
    std::unique_ptr<Communicator> world(int rank);

    // Runs rank_main(rank) for every rank, and returns when all have ended. If a rank throws,
    // rethrows the first exception. Throws Deadlock if no rank can continue. May be called only
    // once.
    void run(const std::function<void(int rank)>& rank_main);

  private:
    int ranks_;
    LocalOptions options_;
    Baton baton_;
    std::map<std::string, LocalGroup> groups_;
};

}  // namespace roll::train
