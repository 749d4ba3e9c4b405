// Files that are written from beginning to end, so that they can be hashed while they are written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/tensor/output_file.hpp"
#include "worker/checkpoint/byte_pipe.hpp"
#include "worker/checkpoint/manifest.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::train {

// A file of tensors that can be written from beginning to end. All bytes outside the tensors,
// except the tensors' checksums, are known before the contents of the tensors.
struct StreamedFile {
    std::string path;  // path of the file, relative to the checkpoint's directory
    std::vector<std::int64_t> sizes = {};  // bytes of each tensor, in the order of the file
    // Returns the bytes before tensor `i`. `crc` is the CRC-32 of this tensor. Called for i = 0, 1,
    // ... in order.
    std::function<std::string(std::size_t i, std::uint32_t crc)> front = {};
    std::function<std::string()> back = {};  // returns the bytes after the last tensor
    bool has_crc = false;                    // true: `front` uses `crc`
    // offset of each tensor's first byte in the file; empty: the file has only one writer
    std::vector<std::int64_t> begins = {};
    // Size of the file in bytes.
    std::int64_t bytes = 0;
};

// The part of a file that one of several ranks writes.
struct FileShare {
    // range of the file, in bytes
    std::int64_t begin = 0, end = std::numeric_limits<std::int64_t>::max();
    // True: the rank also writes the bytes from `tail` on, hashes the whole file, and reports it.
    bool own = true;
    std::int64_t tail = std::numeric_limits<std::int64_t>::max();

    bool is_whole() const { return own && begin == 0 && end >= tail; }
};

// Returns the part of the file that replica `replica` writes. `shares`: the replicas' numbers of
// bytes of tensors, in order. `own`: true if the replica owns the file. Parts begin and end at
// multiples of a page, so that no two ranks write to one page. Otherwise, the clients of a network
// file system could overwrite each other's bytes.
FileShare share_of(const StreamedFile& file, const std::vector<std::int64_t>& shares, int replica,
                   bool own);

// Returns true if the rank that writes `share` needs the content of tensor `i`.
bool is_streamed(const StreamedFile& file, const FileShare& share, std::size_t i);

// Returns the number of bytes that the rank writes.
std::int64_t written_bytes(const StreamedFile& file, const FileShare& share);

// Returns a file in torch.save's format that has the tensors of `sections`, in order. Fails as
// formats::torch_image() does.
Result<StreamedFile> torch_stream(const std::string& path,
                                  const std::vector<formats::TorchSection>& sections);

// Returns a .distcp file that has the tensors `infos`, in order. Fails as formats::distcp_item()
// does.
Result<StreamedFile> distcp_stream(const std::string& path,
                                   const std::vector<tensor::TensorInfo>& infos);

// Returns a safetensors file. Sorts `infos` in the order in which the file stores them. Fails as
// tensor::layout_safetensors() does.
Result<StreamedFile> safetensors_stream(const std::string& path,
                                        std::vector<tensor::TensorInfo>& infos);

// Returns true if the producer must send the CRC-32 of a tensor of `size` bytes through the pipe,
// as 8 bytes before the tensor. This is necessary if the file stores the CRC-32 before the tensor,
// and the tensor is too large for the pipe.
bool sends_crc(const StreamedFile& file, std::int64_t size, const checkpoint::BytePipe& pipe);

// A written file. The caller must still call file.finish() to wait for the disk.
struct WrittenFile {
    std::optional<checkpoint::FileEntry> entry;  // nullopt: another rank reports the file
    tensor::OutputFile file;
};

// Writes a share of the file. The tensors for which is_streamed() is true are read from the pipe.
// Fails with Failed if the producer stops.
Result<WrittenFile> write_streamed(const std::filesystem::path& directory, const StreamedFile& file,
                                   const FileShare& share, checkpoint::BytePipe& pipe);

}  // namespace roll::train
