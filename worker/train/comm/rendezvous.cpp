#include "worker/train/comm/rendezvous.hpp"

#include <optional>
#include <sstream>
#include <thread>

#include "common/files.hpp"

namespace roll::train {
namespace {

std::optional<StoreAddress> parse(const std::string& text) {
    std::istringstream line(text);
    StoreAddress address;
    if (line >> address.host >> address.port >> address.nonce) return address;
    return std::nullopt;
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

}  // namespace roll::train
