#include "worker/plan/mesh.hpp"

#include <gtest/gtest.h>

namespace roll::plan {
namespace {

using Ranks = std::vector<int>;

TEST(Mesh, CountsThroughTpThenCpThenDpThenPp) {
    const Mesh mesh = Mesh::make({.dp = 2, .tp = 2, .pp = 2, .cp = 2}, 16).value();
    EXPECT_EQ(mesh.place(0), (Place{0, 0, 0, 0}));
    EXPECT_EQ(mesh.place(1), (Place{1, 0, 0, 0}));
    EXPECT_EQ(mesh.place(2), (Place{0, 1, 0, 0}));
    EXPECT_EQ(mesh.place(4), (Place{0, 0, 1, 0}));
    EXPECT_EQ(mesh.place(15), (Place{1, 1, 1, 1}));
    EXPECT_EQ(mesh.group(5, Axis::Tp), (Ranks{4, 5}));
    EXPECT_EQ(mesh.group(5, Axis::Cp), (Ranks{5, 7}));
    EXPECT_EQ(mesh.group(5, Axis::Dp), (Ranks{1, 5}));
    EXPECT_EQ(mesh.group(5, Axis::Pp), (Ranks{5, 13}));
    EXPECT_EQ(mesh.replicas(5), (Ranks{1, 3, 5, 7}));
    EXPECT_EQ(mesh.replicas(10), (Ranks{8, 10, 12, 14}));
}

TEST(Mesh, PlaceAndRankAreInverse) {
    const Mesh mesh = Mesh::make({.dp = 3, .tp = 2, .pp = 5, .cp = 2}, 60).value();
    for (int rank = 0; rank < 60; ++rank) EXPECT_EQ(mesh.rank(mesh.place(rank)), rank);
}

TEST(Mesh, EachAxisCutsTheWorldIntoDisjointGroups) {
    const Mesh mesh = Mesh::make({.dp = 3, .tp = 2, .pp = 2}, 12).value();
    for (const Axis axis : {Axis::Tp, Axis::Cp, Axis::Dp, Axis::Pp}) {
        std::vector<int> seen(12);
        for (int rank = 0; rank < 12; ++rank) {
            const Ranks group = mesh.group(rank, axis);
            EXPECT_EQ(std::ssize(group), mesh.size(axis));
            for (const int member : group) {
                EXPECT_EQ(mesh.group(member, axis), group);
                ++seen[static_cast<std::size_t>(member)];
            }
        }
        EXPECT_EQ(seen, std::vector<int>(12, mesh.size(axis)));
    }
}

TEST(Mesh, RefusesAxesThatDoNotMakeTheWorld) {
    const auto wrong = Mesh::make({.dp = 2, .tp = 3}, 8);
    ASSERT_FALSE(wrong);
    EXPECT_NE(wrong.error().message.find("need world size 6, but it is 8"), std::string::npos);
    EXPECT_FALSE(Mesh::make({.dp = 0}, 0));
}

}  // namespace
}  // namespace roll::plan
