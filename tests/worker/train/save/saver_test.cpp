#include "worker/train/save/saver.hpp"

#include <filesystem>
#include <future>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/worker/train/processes.hpp"
#include "worker/checkpoint/state.hpp"
#include "worker/train/model/model_setup.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// Makes a checkpoint whose manifest is a named pipe, and returns the path of the pipe. The
// optimizer state cannot be deleted until a writer opens the pipe.
fs::path slow_to_strip(const fs::path& checkpoint) {
    const fs::path manifest = checkpoint / checkpoint::kManifestFile;
    EXPECT_TRUE(make_directories(manifest.parent_path()));
    EXPECT_TRUE(write_file_atomically(checkpoint / checkpoint::kOptimizerFile, "x"));
    EXPECT_EQ(::mkfifo(manifest.c_str(), 0600), 0);
    return manifest;
}

TEST(Saver, DoesNotWaitForADeletionIfTheDiskHasRoom) {
    const TemporaryFolder folder;
    const Token writer{1, 1};
    const ModelSetup model{};
    WorkerLink link;
    SaverOptions options{};
    options.checkpoints = folder.native();
    options.writer = writer;
    options.retention.optimizer = 1;
    options.recorded = {{.name = {1, writer}}};
    const fs::path manifest =
        slow_to_strip(folder / checkpoint::final_name(options.recorded[0].name));
    Saver saver(std::move(options), model, link);
    saver.recorded(2);  // the optimizer state of step 1 may be deleted
    auto room = std::async(std::launch::async, [&] { return saver.has_room(3); });
    EXPECT_EQ(room.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    ::close(::open(manifest.c_str(), O_WRONLY));  // ends the deletion
    EXPECT_TRUE(room.get());
    saver.finish();
}

}  // namespace
}  // namespace roll::train
