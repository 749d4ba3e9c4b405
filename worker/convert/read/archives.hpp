// Checks the CRC-32 that torch.save stores for each member of its files. This check finds damaged
// bytes in any torch checkpoint, even without a manifest.
#pragma once

#include <filesystem>
#include <functional>

#include "common/error.hpp"
#include "worker/convert/plan/diff.hpp"

namespace roll::convert {

// Checks the .pt, .pth, .bin and .ckpt files of the newest iteration, the contents of .distcp
// files, and the torch files in a `.nemo` archive. Checks only the archives in `share`. With
// `optimizer` false, skips the archives with optimizer state. Skips
// members whose CRC-32 is 0, because torch stores 0 if it was told not to compute the CRC-32. Fails
// with Corrupt if bytes are damaged; the message names the file and the member. Fails with
// Unavailable if stopped.
Result<void> check_archives(const std::filesystem::path& checkpoint,
                            const std::function<bool()>& stopped, Share share = {},
                            bool optimizer = true);

// Checks the bytes of a checkpoint. If a training job wrote the checkpoint, compares the files in
// `share` with the hashes in its manifest; otherwise, does the same as check_archives(). With
// `optimizer` false, does not check files that contain only optimizer state.
Result<void> check_bytes(const std::filesystem::path& checkpoint,
                         const std::function<bool()>& stopped, Share share, bool optimizer);

}  // namespace roll::convert
