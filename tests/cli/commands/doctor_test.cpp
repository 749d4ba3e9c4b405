#include "cli/commands/doctor.hpp"

#include <gtest/gtest.h>
#include <linux/magic.h>

namespace roll::cli {
namespace {

TEST(Doctor, KnowsFileSystemsThatAreNoLocalDisk) {
    EXPECT_EQ(network_file_system(NFS_SUPER_MAGIC), "NFS");
    EXPECT_EQ(network_file_system(CIFS_SUPER_MAGIC), "CIFS");
    EXPECT_EQ(network_file_system(SMB2_SUPER_MAGIC), "SMB");
    EXPECT_EQ(network_file_system(CEPH_SUPER_MAGIC), "CephFS");
    EXPECT_EQ(network_file_system(AFS_SUPER_MAGIC), "AFS");
    for (const std::uint64_t local : {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, TMPFS_MAGIC})
        EXPECT_EQ(network_file_system(local), "");
    EXPECT_EQ(network_file_system(BTRFS_SUPER_MAGIC), "");
}

}  // namespace
}  // namespace roll::cli
