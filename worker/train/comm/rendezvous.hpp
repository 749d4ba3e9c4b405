// The file by which rank 0 tells the others where its store is: one line, `host port nonce`.
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

Result<void> write_rendezvous(const std::filesystem::path& file, const StoreAddress& address);

// Waits until the file is there and carries this nonce: an older attempt's file is waited past.
// Error Unavailable: it did not come in time.
Result<StoreAddress> await_rendezvous(const std::filesystem::path& file, const std::string& nonce,
                                      std::chrono::milliseconds timeout);

}  // namespace roll::train
