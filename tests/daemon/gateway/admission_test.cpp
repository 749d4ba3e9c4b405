// Tests which role may use which operation, and how often.
#include <gtest/gtest.h>

#include "daemon/gateway/authenticator.hpp"

namespace roll::gateway {
namespace {

TEST(Identity, IsWhatTheKeysFileSays) {
    EXPECT_EQ(identity_of("client", "ann"), (Identity{Role::Operator, "ann"}));
    EXPECT_EQ(identity_of("client-bob", "ann"), (Identity{Role::Client, "bob"}));
    EXPECT_EQ(identity_of("worker", "ann").role, Role::Worker);
    EXPECT_EQ(identity_of("worker-n1", "ann").role, Role::Worker);
    for (const char* name : {"", "clients", "client-", "server", "anybody"})
        EXPECT_EQ(identity_of(name, "ann").role, Role::None) << name;
}

TEST(PeerAddress, TellsTheUserOfAUnixSocket) {
    EXPECT_EQ(uid_of("localhost:1000:100:4711"), 1000u);
    EXPECT_EQ(uid_of("localhost:0:0:1"), 0u);
    for (const char* address :
         {"", "127.0.0.1", "10.1.2.3:1000", "localhost", "localhost:x:0:1", "localhost:1000:100"})
        EXPECT_EQ(uid_of(address), std::nullopt) << address;
}

}  // namespace
}  // namespace roll::gateway
