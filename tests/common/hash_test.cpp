#include "common/hash.hpp"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace roll {
namespace {

TEST(Hash64, OfPiecesIsThatOfTheWhole) {
    std::vector<std::byte> bytes(5000);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i / 7);
    const std::span<const std::byte> whole(bytes);
    for (const std::size_t cut : {0U, 1U, 255U, 256U, 4999U, 5000U}) {
        Hash64 pieces;
        pieces.add(whole.first(cut));
        pieces.add(whole.subspan(cut));
        EXPECT_EQ(pieces.value(), hash64(whole)) << cut;
        Hash64 seeded(7);
        seeded.add(whole.first(cut));
        seeded.add(whole.subspan(cut));
        EXPECT_EQ(seeded.value(), hash64(whole, 7)) << cut;
    }
    EXPECT_EQ(Hash64().value(), hash64(std::string_view()));
    EXPECT_EQ(to_hex(Hash64().value()), "2d06800538d394c2");  // XXH3-64 of an empty text
}

}  // namespace
}  // namespace roll
