// Runs the ranks of a job as threads of one process, one at a time, in an order that a seed
// decides. Its groups are as strict as local_communicator.hpp says.
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
    std::uint64_t seed = 0;   // decides the order in which the ranks run
    bool rendezvous = false;  // true: a send blocks its rank until the receive is issued
    std::vector<Plant> plants = {};
};

class LocalFabric {
  public:
    explicit LocalFabric(int ranks, LocalOptions options = {});

    // Returns the communicator of rank `rank` in the group `name`. `ranks` are the members of the
    // group, and `rank` is one of them. Call it on that rank's thread.
    std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& ranks,
                                        int rank);

    // Runs rank_main(rank) for every rank and returns when all have ended. Rethrows the first
    // exception of a rank. Throws Deadlock if no rank can go on. Call it once.
    void run(const std::function<void(int rank)>& rank_main);

  private:
    int ranks_;
    LocalOptions options_;
    Baton baton_;
    std::map<std::string, LocalGroup> groups_;
};

}  // namespace roll::train
