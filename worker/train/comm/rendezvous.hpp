// The file in which rank 0 publishes the address of its store: one line, `host port nonce`.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "common/error.hpp"

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

}  // namespace roll::train
