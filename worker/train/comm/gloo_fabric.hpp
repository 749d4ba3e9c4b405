// Connects ranks that are separate processes, through LibTorch's store and Gloo.
//
// Rank 0 serves the store on a free port and writes the store's address atomically to the
// rendezvous file: `host port nonce`. Every key in the store has a prefix that is unique to the
// attempt, and a file with another nonce is ignored. Therefore, ranks of different attempts never
// connect. Used from one thread. Throws PeerLost when a peer dies, leaves or does not connect in
// time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/comm/flight_recorder.hpp"

namespace roll::train {

struct StoreAddress {
    std::string host;
    std::uint16_t port = 0;
    std::string nonce;
    friend bool operator==(const StoreAddress&, const StoreAddress&) = default;
};

// Writes the file that await_rendezvous() reads.
Result<void> write_rendezvous(const std::filesystem::path& file, const StoreAddress& address);

// Waits until the file exists and has this nonce. Ignores files of other attempts. Fails with
// Unavailable after `timeout`.
Result<StoreAddress> await_rendezvous(const std::filesystem::path& file, const std::string& nonce,
                                      std::chrono::milliseconds timeout);

struct FabricOptions {
    std::filesystem::path rendezvous_file;
    std::string nonce;  // identifies the attempt in the rendezvous file
    // prefix of every key in the store, made from the job's number and the attempt's token
    std::string prefix;
    int rank = 0;                    // this rank's number among all ranks of the attempt
    std::string host = "127.0.0.1";  // address at which other ranks reach this machine
    std::string interface = "";      // network interface to use; empty: the interface of `host`
    std::chrono::milliseconds connect_timeout{300'000};
    std::chrono::milliseconds collective_timeout{600'000};
};

// A rank's position in a group whose ranks do not connect through Gloo.
struct GroupPlace {
    std::string name;
    int rank = 0, size = 1;
    std::chrono::milliseconds timeout{};
    // Publishes `given` in the store under `name` and returns `given`. If `given` is empty, waits
    // until another rank of the group publishes a value under `name`, and returns that value.
    std::function<std::vector<std::uint8_t>(const std::string& name,
                                            const std::vector<std::uint8_t>& given)>
        exchange;
};

class GlooFabric {
  public:
    // Connects to the store. Returns when rank 0 has written the rendezvous file and the store
    // responds.
    explicit GlooFabric(const FabricOptions& options);
    ~GlooFabric();
    GlooFabric(const GlooFabric&) = delete;
    GlooFabric& operator=(const GlooFabric&) = delete;

    // Creates the group of `ranks`, in this order. `ranks` are numbers among all ranks of the
    // attempt. Exactly these ranks must call group(), with a name that no other group has. Returns
    // when all these ranks are connected. The group may outlive the fabric.
    std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& ranks);

    // Returns a board that all ranks of the attempt share. The board has its own connections to the
    // store. Its functions do not throw.
    Board board() const;

    // Returns this rank's position in the group `name` of `ranks`. Does not connect the group. The
    // position may outlive the fabric.
    GroupPlace place(const std::string& name, const std::vector<int>& ranks) const;

  private:
    struct Store;
    FabricOptions options_;
    std::unique_ptr<Store> store_;
};

}  // namespace roll::train
