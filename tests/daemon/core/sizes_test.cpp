#include "common/spec/schema/array.hpp"
#include "tests/daemon/core/desk.hpp"

namespace roll::core {
namespace {

constexpr int kMost = std::numeric_limits<int>::max();

std::string refusal(const spec::JobSpec& spec) {
    const Desk desk;
    return desk.refusal(Submit{"k", "ann", spec}).message;
}

TEST(Sizes, AreThoseOfTheSchema) {
    EXPECT_EQ(refusal(wants(kMost, 1)), "resources.nodes is 2147483647; allowed: 1 to 100000");
    EXPECT_EQ(refusal(wants(1, 4097)), "resources.slots_per_node is 4097; allowed: 0 to 4096");
    EXPECT_EQ(refusal(wants(1, 1, 42949673)),
              "resources.gpus_per_node is 42949673; allowed: 0 to 64");
    EXPECT_NE(refusal(wants(1, 0)), "");
    spec::JobSpec spec = wants(1, 1);
    spec.resources.time = std::chrono::seconds(1LL << 62);
    EXPECT_NE(refusal(spec).find("resources.time is "), std::string::npos);
    spec = wants(1, 1);
    spec.variants = {wants(1, 5000).resources};
    EXPECT_NE(refusal(spec).find("slots_per_node is 5000"), std::string::npos);
    spec = wants(1, 1);
    spec.retry.backoff_max = std::chrono::seconds(1LL << 62);
    EXPECT_NE(refusal(spec).find("retry.backoff_max is "), std::string::npos);
    spec = wants(1, 1);
    spec.output = "/" + std::string(5000, 'x');
    EXPECT_EQ(refusal(spec), "output has 5001 bytes; allowed: 4096");
    spec = wants(1, 1);
    spec.priority = kMost;
    EXPECT_NE(refusal(spec).find("priority is "), std::string::npos);
}

TEST(Sizes, OfAllTasksOfAnArrayTogether) {
    spec::JobSpec spec = wants(1, 1);
    spec.output = "/o-{id}";
    spec.document = std::string(1u << 20, ' ');
    spec.array = spec::Array{"0-256"};
    EXPECT_EQ(
        refusal(spec),
        "array: the job documents of 257 tasks have 1048576 bytes each, which is more than 256 "
        "MiB in total");
    spec.array = spec::Array{"0-3"};
    Desk desk;
    desk.submit(spec);
    EXPECT_EQ(desk.state.jobs.size(), 4u);
}

}  // namespace
}  // namespace roll::core
