// The CRC-32 that torch.save wrote beside each member of its files: a byte that has turned since is
// found in any checkpoint of torch's, with a manifest or without.
#pragma once

#include <filesystem>
#include <functional>

#include "common/error.hpp"
#include "worker/convert/diff.hpp"

namespace roll::convert {

// Reads the checkpoint's .pt, .pth, .bin and .ckpt files, what .distcp files hold and the torch
// files in a `.nemo`, of its newest iteration. `share` counts archives; 0 instead of a CRC-32 is
// one that torch was told not to make. Corrupt: names file and member. Unavailable: stopped.
Result<void> check_archives(const std::filesystem::path& checkpoint,
                            const std::function<bool()>& stopped, Share share = {});

}  // namespace roll::convert
