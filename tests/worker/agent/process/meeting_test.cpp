#include "worker/agent/process/meeting.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/files.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/agent/host/host.hpp"

namespace roll::agent {
namespace {

io::Descriptor listen_on(int port) {
    io::Descriptor server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
    return ::listen(server.get(), 1) == 0 ? std::move(server) : io::Descriptor();
}

Gang gang(const TemporaryFolder& folder, bool first) {
    Gang gang;
    gang.first = first;
    gang.meeting = folder / "meeting.json";
    gang.host_file = folder / (first ? "hosts-0" : "hosts-1");
    gang.hosts = "a slots=1\nb slots=1\n";
    return gang;
}

TEST(FreePort, IsNotOneThatAProgramOrAnotherGangHas) {
    const auto first = choose_port(7);
    ASSERT_TRUE(first) << first.error().message;
    const auto second = choose_port(7);
    EXPECT_NE(second->number, first->number) << "another gang holds the first";
    int taken = 0;
    {
        const auto gone = choose_port(77);
        taken = gone->number;
    }
    EXPECT_EQ(choose_port(77)->number, taken) << "a gang that ended frees its port";
    const io::Descriptor server = listen_on(taken);
    ASSERT_TRUE(server);
    EXPECT_NE(choose_port(77)->number, taken) << "a program listens there";
}

TEST(Meeting, AnAddressThatIsUnknownIsTheHostsNameOnOtherMachines) {
    EXPECT_EQ((Meeting{"10.0.0.2", "n1", "x", 1}.address_from("y")), "10.0.0.2");
    EXPECT_EQ((Meeting{"", "n1", "x", 1}.address_from("y")), "n1");
    EXPECT_EQ((Meeting{"", "n1", "x", 1}.address_from("x")), "127.0.0.1");
}

TEST(GangMeeting, TheOtherNodesWaitForTheFirst) {
    const TemporaryFolder folder;
    GangMeeting other;
    ASSERT_TRUE(other.open(gang(folder, false)));
    EXPECT_FALSE(other.met().value());
    EXPECT_TRUE(other.waits());
    GangMeeting first;
    ASSERT_TRUE(first.open(gang(folder, true)));
    EXPECT_TRUE(first.met().value());
    EXPECT_TRUE(other.met().value());
    EXPECT_FALSE(other.waits());
    std::vector<std::string> one, two = {"MASTER_ADDR=mine"};
    first.add_to(one);
    other.add_to(two);
    ASSERT_EQ(one.size(), 2u);
    EXPECT_EQ(two, (std::vector<std::string>{"MASTER_ADDR=mine", one[1]}));
    EXPECT_EQ(read_file(folder / "hosts-1").value(), "a slots=1\nb slots=1\n");
}

TEST(GangMeeting, ANodeThatDoesNotSeeTheFilesOfTheFirstSaysSo) {
    const TemporaryFolder folder;
    Gang lone = gang(folder, false);
    lone.patience_seconds = 0;
    GangMeeting meeting;
    ASSERT_TRUE(meeting.open(lone));
    const auto met = meeting.met();
    ASSERT_FALSE(met);
    EXPECT_NE(met.error().message.find("within 0 s; a gang on several nodes requires an output "
                                       "directory that all of them share"),
              std::string::npos)
        << met.error().message;
    EXPECT_TRUE(GangMeeting().met().value()) << "what is no gang waits for nobody";
}

TEST(Host, ALoopbackAddressIsNoneForOtherMachines) {
    EXPECT_EQ(address_towards("tcp://127.0.0.1:5555"), "");
    EXPECT_EQ(address_towards("tcp://[::1]:5555"), "");
    EXPECT_EQ(address_towards("ipc:///run/roll/rolld.sock"), "");
    EXPECT_EQ(address_towards(""), "");
}

}  // namespace
}  // namespace roll::agent
