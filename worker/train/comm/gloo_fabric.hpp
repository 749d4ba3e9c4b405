// Ranks as processes: LibTorch's store and Gloo.
//
// Rank 0 serves the store on a free port and tells it to the others through the rendezvous file,
// `host port nonce`, written whole. Every key begins with the attempt's own prefix, and a file with
// another nonce is not believed, so ranks of an earlier attempt never meet those of this one.
// Used from one thread. Throws PeerLost when a peer dies, leaves or does not come in time.
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
    std::string host = "127.0.0.1";  // where this machine is reached from the others
    std::chrono::milliseconds connect_timeout{300'000};
    std::chrono::milliseconds collective_timeout{600'000};
};

// A rank's place in a group that connects by other means than Gloo.
struct GroupPlace {
    std::string name;
    int rank = 0, size = 1;
    std::chrono::milliseconds timeout{};
    // What the group's first rank gives under a name, told to all of them by the store.
    std::function<std::vector<std::uint8_t>(const std::string& name,
                                            const std::vector<std::uint8_t>& given)>
        from_first;
};

class GlooFabric {
  public:
    // Returns once the store answers. Blocks until rank 0 has written the file.
    explicit GlooFabric(const FabricOptions& options);
    ~GlooFabric();
    GlooFabric(const GlooFabric&) = delete;
    GlooFabric& operator=(const GlooFabric&) = delete;

    // The group of these ranks of the world, in this order. Called by each of them and by nobody
    // else, with a name of its own. Returns once all have connected. It outlives the fabric.
    std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& ranks);

    // This rank's place in that group; connects nothing. It outlives the fabric.
    GroupPlace place(const std::string& name, const std::vector<int>& ranks) const;

  private:
    struct Store;
    FabricOptions options_;
    std::unique_ptr<Store> store_;
};

}  // namespace roll::train
