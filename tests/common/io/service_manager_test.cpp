#include "common/io/service_manager.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace roll::io {
namespace {

using std::chrono::milliseconds;

// A socket as systemd opens it, and an environment that names it.
class Manager : public testing::Test {
  protected:
    void TearDown() override {
        for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
            ::unsetenv(name);
        if (!path_.empty()) ::unlink(path_.c_str());
    }

    void listen(const std::string& address) {
        ::setenv("NOTIFY_SOCKET", address.c_str(), 1);
        sockaddr_un bound{};
        bound.sun_family = AF_UNIX;
        std::ranges::copy(address, bound.sun_path);
        if (address[0] == '@')
            bound.sun_path[0] = '\0';
        else
            path_ = address;
        socket_ = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        const auto length =
            static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
        ASSERT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&bound), length), 0);
    }

    // Returns the next message; empty if there is none.
    std::string next() {
        std::array<char, 256> text{};
        const ssize_t n = ::recv(socket_.get(), text.data(), text.size(), 0);
        return n > 0 ? std::string(text.data(), static_cast<std::size_t>(n)) : "";
    }

    Descriptor socket_;
    std::string path_;
};

TEST_F(Manager, HearsEachMessageAtAPathAndAtAnAbstractName) {
    const std::string name = "roll-test-" + std::to_string(::getpid());
    for (const std::string& address : {"/tmp/" + name, "@" + name}) {
        listen(address);
        const ServiceManager manager = ServiceManager::from_environment();
        EXPECT_TRUE(manager.is_there());
        manager.tell("READY=1\nSTATUS=serves");
        manager.tell("STOPPING=1");
        EXPECT_EQ(next(), "READY=1\nSTATUS=serves") << address;
        EXPECT_EQ(next(), "STOPPING=1") << address;
    }
}

TEST_F(Manager, IsHiddenFromTheProgramsThatThisProgramStarts) {
    listen("@roll-test-hidden-" + std::to_string(::getpid()));
    ::setenv("WATCHDOG_USEC", "9000000", 1);
    ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
    EXPECT_EQ(ServiceManager::from_environment().watchdog(), milliseconds(9000));
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
        EXPECT_EQ(std::getenv(name), nullptr) << name;
    EXPECT_FALSE(ServiceManager::from_environment().is_there());
}

TEST_F(Manager, WatchesOnlyTheProcessThatItNames) {
    listen("@roll-test-other-" + std::to_string(::getpid()));
    ::setenv("WATCHDOG_USEC", "9000000", 1);
    ::setenv("WATCHDOG_PID", "1", 1);
    EXPECT_EQ(ServiceManager::from_environment().watchdog(), milliseconds(0));
}

TEST_F(Manager, IsNotThereWithoutAnAddressThatThisProgramKnows) {
    for (const std::string& address : {std::string(), std::string("/"), std::string("relative"),
                                       std::string("vsock:2:1"), "/" + std::string(200, 'x')}) {
        ::setenv("NOTIFY_SOCKET", address.c_str(), 1);
        const ServiceManager manager = ServiceManager::from_environment();
        EXPECT_FALSE(manager.is_there()) << address;
        manager.tell("READY=1");
    }
}

TEST_F(Manager, ThatIsGoneOrDoesNotReadStopsNoProgram) {
    listen("@roll-test-full-" + std::to_string(::getpid()));
    const ServiceManager manager = ServiceManager::from_environment();
    const auto took = [&] {
        const auto begin = std::chrono::steady_clock::now();
        manager.tell("STATUS=serves");
        return std::chrono::steady_clock::now() - begin;
    };
    bool has_waited = false;
    for (int i = 0; i < 10'000 && !has_waited; ++i) has_waited = took() > milliseconds(500);
    EXPECT_TRUE(has_waited) << "the queue of the socket is never full";
    socket_.reset();
    EXPECT_LT(took(), std::chrono::seconds(10));
}

}  // namespace
}  // namespace roll::io
