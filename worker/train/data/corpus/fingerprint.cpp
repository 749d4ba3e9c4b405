#include "worker/train/data/corpus/fingerprint.hpp"

#include <algorithm>

#include "common/hash.hpp"

namespace roll::data {
namespace {

constexpr std::size_t kBlocks = 64, kBlock = std::size_t{256} << 10U;
// Number of bytes that are hashed between two calls of go_on
constexpr std::size_t kPiece = std::size_t{64} << 20U;

}  // namespace

std::string sample_hash(std::span<const std::byte> bytes) {
    if (bytes.size() <= kBlocks * kBlock) return to_hex(hash64(bytes));
    Hash64 hash;
    const std::size_t last = bytes.size() - kBlock;
    // last * i does not overflow if the size is below 2^58 bytes
    for (std::size_t i = 0; i < kBlocks; ++i)
        hash.add(bytes.subspan(last * i / (kBlocks - 1), kBlock));
    const std::uint64_t size = bytes.size();
    hash.add(std::as_bytes(std::span(&size, 1)));
    return to_hex(hash.value());
}

std::optional<std::string> whole_hash(std::span<const std::byte> bytes, const GoOn& go_on) {
    Hash64 hash;
    for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
        if (!go_on({at, bytes.size()})) return std::nullopt;
        hash.add(bytes.subspan(at, std::min(kPiece, bytes.size() - at)));
    }
    return to_hex(hash.value());
}

}  // namespace roll::data
