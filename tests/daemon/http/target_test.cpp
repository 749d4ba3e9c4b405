#include "daemon/http/target.hpp"

#include <gtest/gtest.h>

namespace roll::http {
namespace {

TEST(Target, HasDecodedSegmentsAndParameters) {
    const Target target = parse_target("/api/v1/jobs?selector=kjv-*%2C3&user=a+b&all").value();
    EXPECT_EQ(target.path, (std::vector<std::string>{"api", "v1", "jobs"}));
    EXPECT_EQ(target.query, (std::map<std::string, std::string>{
                                {"selector", "kjv-*,3"}, {"user", "a b"}, {"all", ""}}));
    EXPECT_EQ(parse_target("/a+b/c%2fd").value().path, (std::vector<std::string>{"a+b", "c/d"}));
    EXPECT_TRUE(parse_target("/").value().path.empty());
}

TEST(Target, MalformedAddressesAreRefused) {
    for (const char* bad :
         {"", "jobs", "http://x/", "/a%", "/a%2", "/a%zz", "/a%00", "/%0a", "/?a=1&a=2", "/?a=%7f"})
        EXPECT_FALSE(parse_target(bad)) << bad;
}

TEST(Target, AMachineIsOneClientWhateverItsAddresses) {
    EXPECT_EQ(client_of_address("192.0.2.1"), "192.0.2.1");
    EXPECT_EQ(client_of_address("2001:db8:0:1::1"), client_of_address("2001:db8:0:1:ffff::2"));
    EXPECT_NE(client_of_address("2001:db8:0:1::1"), client_of_address("2001:db8:0:2::1"));
    EXPECT_NE(client_of_address("::ffff:192.0.2.1"), client_of_address("::ffff:192.0.2.2"));
}

}  // namespace
}  // namespace roll::http
