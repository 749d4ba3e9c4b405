// Checkpoint directories of torch.distributed.checkpoint, and of Megatron's torch_dist, which adds
// files to them: `.metadata`, a pickle that says where each chunk of each tensor lies, and
// `.distcp` files, each a row of whole torch files of one tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/tensor/output_file.hpp"
#include "common/tensor/view.hpp"
#include "worker/formats/zip.hpp"

namespace roll::formats {

constexpr const char* kDcpMetadataFile = ".metadata";

// Bytes [begin, begin + size) of a file of the directory.
struct DcpExtent {
    std::string file;
    std::int64_t begin = 0;
    std::int64_t size = 0;
};

// The box [begin, begin + size) of a tensor.
struct DcpChunk {
    tensor::Shape begin;
    tensor::Shape size;
    DcpExtent extent;
};

struct DcpTensor {
    tensor::TensorInfo info;  // of the whole tensor; its name is the key
    std::vector<DcpChunk> chunks;
    // Of an optimizer's tensor that Megatron before 0.14 kept flat: its shape. [X, Y] of which
    // ranks have [x, y] is then saved as [X/x, Y/y, x*y].
    std::optional<tensor::Shape> original = {};
};

// What is no tensor: a file of torch.save of its own.
struct DcpObject {
    std::string name;
    DcpExtent extent;
};

struct DcpMetadata {
    std::vector<DcpTensor> tensors;
    std::vector<DcpObject> objects;
};

// Corrupt: no such pickle, chunks outside their tensor or that do not fill it exactly, a chunk that
// no file has, a file name that leaves the directory.
Result<DcpMetadata> parse_dcp_metadata(std::span<const std::byte> bytes);
Result<DcpMetadata> read_dcp_metadata(const std::filesystem::path& directory);

// The pickle, for torch's reader.
std::string dcp_metadata_pickle(const DcpMetadata& metadata);

// One chunk, mapped: the tensor that the extent holds. Corrupt: it has another type or shape.
Result<tensor::StridedView> open_dcp_chunk(const std::filesystem::path& path,
                                           std::span<const std::byte> file,
                                           const tensor::TensorInfo& info, const DcpChunk& chunk);

// Where each of the tensors, in this order, lies in one .distcp file.
Result<std::vector<DcpExtent>> lay_out_distcp(const std::string& file,
                                              const std::vector<tensor::TensorInfo>& tensors);

// Writes such a file: tensors in any order and from any thread, the bytes of one in order.
class DistcpWriter {
  public:
    static Result<DistcpWriter> create(const std::filesystem::path& path,
                                       const std::vector<tensor::TensorInfo>& tensors,
                                       const std::filesystem::path& earlier = {});
    Result<void> append(std::size_t tensor, std::span<const std::byte> bytes);
    Result<void> finish();

  private:
    struct Item {
        std::int64_t base = 0;
        ZipLayout layout;
        std::string pickle;
        std::int64_t written = 0;
    };
    explicit DistcpWriter(tensor::OutputFile file) : file_(std::move(file)) {}
    tensor::OutputFile file_;
    std::vector<Item> items_;
};

}  // namespace roll::formats
