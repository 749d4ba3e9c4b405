// Files that are written from front to back, so that they can be hashed while they are written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "worker/checkpoint/byte_pipe.hpp"
#include "worker/checkpoint/manifest.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::train {

// A file of tensors. The bytes around the tensors are known before the tensors' own, except for
// checksums.
struct StreamedFile {
    std::string path;                      // relative to the checkpoint's directory
    std::vector<std::int64_t> sizes = {};  // bytes of each tensor, in the order of the file
    // Returns the bytes in front of tensor `i`, whose CRC-32 is `crc`. Called in order.
    std::function<std::string(std::size_t i, std::uint32_t crc)> front = {};
    std::function<std::string()> back = {};  // returns the bytes after the last tensor
    bool has_crc = false;                    // true: `front` uses `crc`
    // Size of the file in bytes. Pure.
    std::int64_t bytes = 0;
};

// Returns a file in torch.save's format with the sections' tensors in order. Fails like
// formats::torch_image().
Result<StreamedFile> torch_stream(const std::string& path,
                                  const std::vector<formats::TorchSection>& sections);

// Returns a safetensors file. `infos` are reordered to the order of the file. Fails like
// tensor::layout_safetensors().
Result<StreamedFile> safetensors_stream(const std::string& path,
                                        std::vector<tensor::TensorInfo>& infos);

// Returns true if the CRC-32 of a tensor of `size` bytes goes through the pipe before the tensor,
// in 8 bytes. It is needed in front of the tensor, which is too large for the pipe to hold.
bool sends_crc(const StreamedFile& file, std::int64_t size, const checkpoint::BytePipe& pipe);

// Writes and syncs the file, whose tensors come through the pipe. Fails with Failed if the producer
// gives up.
Result<checkpoint::FileEntry> write_streamed(const std::filesystem::path& directory,
                                             const StreamedFile& file, checkpoint::BytePipe& pipe);

}  // namespace roll::train
