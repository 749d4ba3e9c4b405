// Ranks as processes, connected by LibTorch's store and Gloo.
//
// Rank 0 serves the store on a free port and publishes it in the rendezvous file, `host port
// nonce`, written atomically. Every key has the attempt's own prefix, and a file with another nonce
// is ignored, so ranks of different attempts never connect.
// Used from one thread. Throws PeerLost when a peer dies, leaves or does not connect in time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/train/comm/communicator.hpp"

namespace roll::train {

struct FabricOptions {
    std::filesystem::path rendezvous_file;
    std::string nonce;               // of this attempt
    std::string prefix;              // job and token
    int rank = 0;                    // in the world
    std::string host = "127.0.0.1";  // address of this machine for the other ranks
    std::chrono::milliseconds connect_timeout{300'000};
    std::chrono::milliseconds collective_timeout{600'000};
};

// A rank's position in a group that connects by other means than Gloo.
struct GroupPlace {
    std::string name;
    int rank = 0, size = 1;
    std::chrono::milliseconds timeout{};
    // Called by each rank of the group: returns what the first rank passed as `given` under `name`,
    // through the store.
    std::function<std::vector<std::uint8_t>(const std::string& name,
                                            const std::vector<std::uint8_t>& given)>
        from_first;
};

class GlooFabric {
  public:
    // Blocks until rank 0 has written the file and the store responds.
    explicit GlooFabric(const FabricOptions& options);
    ~GlooFabric();
    GlooFabric(const GlooFabric&) = delete;
    GlooFabric& operator=(const GlooFabric&) = delete;

    // Creates the group of these ranks of the world, in this order. Must be called by exactly these
    // ranks, with a name used for no other group. Returns once all are connected. The group may
    // outlive the fabric.
    std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& ranks);

    // Returns this rank's position in that group without connecting. It may outlive the fabric.
    GroupPlace place(const std::string& name, const std::vector<int>& ranks) const;

  private:
    struct Store;
    FabricOptions options_;
    std::unique_ptr<Store> store_;
};

}  // namespace roll::train
