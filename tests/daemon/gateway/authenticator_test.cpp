// Tests the replacement of the ZAP socket, which libzmq asks about peers, while peers are connected
// and others connect.
#include "daemon/gateway/authenticator.hpp"

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "common/files.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::gateway {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class Site : public testing::Test {
  protected:
    Site() {
        EXPECT_TRUE(write_file_atomically(folder_ / "worker.pub", worker_.public_key + "\n"));
        server_.set_curve_server(keys_, "roll");
        authenticator_ = std::make_unique<Authenticator>(io_, context_, server_, folder_, 20'000);
        EXPECT_TRUE(server_.bind("ipc://" + (folder_ / "sock").string()));
        authenticator_->start();
    }
    ~Site() override {
        authenticator_->stop();
        io_.run_for(100ms);
        authenticator_.reset();
    }

    std::unique_ptr<io::ZmqSocket> connect(const io::CurveKeys& keys) {
        auto peer = std::make_unique<io::ZmqSocket>(context_, io::ZmqType::Dealer);
        peer->set_curve_client(keys, keys_.public_key);
        EXPECT_TRUE(peer->connect("ipc://" + (folder_ / "sock").string()));
        peer->send({"hello"});
        return peer;
    }

    // Returns how many messages with the worker's key arrive. Waits for `wanted` messages, at most
    // `patience`.
    int hear(int wanted, std::chrono::milliseconds patience = 10s) {
        int heard = 0;
        for (const auto until = Clock::now() + patience; heard < wanted && Clock::now() < until;) {
            io_.run_for(5ms);
            while (const auto message = server_.receive())
                heard += message->user_id == worker_.public_key ? 1 : 0;
        }
        return heard;
    }

    TemporaryFolder folder_;
    boost::asio::io_context io_;
    io::ZmqContext context_;
    io::CurveKeys keys_ = io::make_curve_keys();
    io::CurveKeys worker_ = io::make_curve_keys();
    io::ZmqSocket server_{context_, io::ZmqType::Router};
    std::unique_ptr<Authenticator> authenticator_;
};

TEST_F(Site, ThoseWhoAreConnectedStayAndOthersComeWhileMemoryIsGivenBack) {
    authenticator_->refresh();
    std::vector<std::unique_ptr<io::ZmqSocket>> peers;
    for (int i = 0; i < 260; ++i) peers.push_back(connect(worker_));
    ASSERT_EQ(hear(260), 260);
    auto now = Clock::now();
    for (int step = 0; step < 4; ++step) {  // the steps: replaced, ended, closed, as at first
        now += 6s;
        authenticator_->give_back_memory(now);
        io_.run_for(50ms);
        peers.push_back(connect(worker_));
        EXPECT_EQ(hear(1), 1) << "a new one, step " << step;
        for (const auto& peer : peers) peer->send({"still here"});
        EXPECT_EQ(hear(static_cast<int>(peers.size())), static_cast<int>(peers.size())) << step;
    }
}

TEST_F(Site, AStrangerIsTurnedAwayBeforeAndAfter) {
    authenticator_->refresh();
    std::vector<std::unique_ptr<io::ZmqSocket>> peers;
    for (int i = 0; i < 260; ++i) peers.push_back(connect(worker_));
    ASSERT_EQ(hear(260), 260);
    authenticator_->give_back_memory(Clock::now() + 6s);
    const auto stranger = connect(io::make_curve_keys());
    io_.run_for(300ms);
    EXPECT_FALSE(server_.receive());
}

// Without the enforced domain, a peer that connects while no ZAP socket exists would be admitted
// without a name, and would never be answered.
TEST(NoAuthenticator, NobodyIsLetIn) {
    const io::ZmqContext context;
    const io::CurveKeys keys = io::make_curve_keys();
    io::ZmqSocket server(context, io::ZmqType::Router);
    server.set_curve_server(keys, "roll");
    ASSERT_TRUE(server.bind("tcp://127.0.0.1:*"));
    io::ZmqSocket peer(context, io::ZmqType::Dealer);
    peer.set_curve_client(io::make_curve_keys(), keys.public_key);
    ASSERT_TRUE(peer.connect(server.bound_endpoint()));
    peer.send({"hello"});
    EXPECT_FALSE(server.wait_input(500ms));
}

}  // namespace
}  // namespace roll::gateway
