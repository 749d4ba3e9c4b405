// Checkpoint directories of torch.distributed.checkpoint and of Megatron's torch_dist format, which
// has additional files. `.metadata` is a pickle that gives the place of each chunk of each tensor.
// A `.distcp` file is a sequence of torch files with one tensor each.
#pragma once

#include <cstdint>
#include <filesystem>
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

// Bytes [begin, begin + size) of a file in the directory.
struct DcpExtent {
    std::string file;
    std::int64_t begin = 0;
    std::int64_t size = 0;
};

// The block [begin, begin + size) of a tensor, and the bytes that store this block.
struct DcpChunk {
    tensor::Shape begin;
    tensor::Shape size;
    DcpExtent extent;
};

struct DcpTensor {
    tensor::TensorInfo info;  // type and shape of the whole tensor; info.name is the key
    std::vector<DcpChunk> chunks;
    // The original shape of an optimizer tensor that Megatron before 0.14 flattened; nullopt for
    // other tensors. Example: each rank holds a block [x, y] of a tensor [X, Y]. The flattened
    // tensor has the shape [X/x, Y/y, x*y]: two dims for the position of the block, and one for its
    // elements.
    std::optional<tensor::Shape> original = {};
};

// An entry that is not a tensor. It is stored as a torch.save file.
struct DcpObject {
    std::string name;
    DcpExtent extent;
};

struct DcpMetadata {
    std::vector<DcpTensor> tensors;
    std::vector<DcpObject> objects;
};

// Parses the pickle in `.metadata`. Fails with Corrupt if the bytes are not such a pickle, if
// chunks reach outside their tensor, if chunks overlap or leave gaps, if a chunk has no file, or if
// a file name points outside the directory.
Result<DcpMetadata> parse_dcp_metadata(std::span<const std::byte> bytes);
Result<DcpMetadata> read_dcp_metadata(const std::filesystem::path& directory);

// Returns the pickle for `.metadata`, in the form that torch reads.
std::string dcp_metadata_pickle(const DcpMetadata& metadata);

// Returns a view of the tensor that is stored in a chunk's extent. `file` is the mapped content of
// `path`. Fails with Corrupt if the stored type or shape differs from the chunk's.
Result<tensor::StridedView> open_dcp_chunk(const std::filesystem::path& path,
                                           std::span<const std::byte> file,
                                           const tensor::TensorInfo& info, const DcpChunk& chunk);

// A tensor in a .distcp file. The tensor is stored as a torch file of its own.
struct DistcpItem {
    ZipLayout layout;  // its members: the pickle, the tensor, and two small members
    std::string pickle;

    ZipMember& content() { return layout.members()[1]; }
    const ZipMember& content() const { return layout.members()[1]; }
};

// Fails with InvalidArgument if torch does not have the tensor's type.
Result<DistcpItem> distcp_item(const tensor::TensorInfo& tensor);

// Return the item's bytes before and after the tensor's content. Require that content().crc is set.
std::string front_of(const DistcpItem& item);
std::string back_of(const DistcpItem& item);

// Returns the extent of each tensor in a .distcp file that holds these tensors in this order.
Result<std::vector<DcpExtent>> lay_out_distcp(const std::string& file,
                                              const std::vector<tensor::TensorInfo>& tensors);

// Writes a .distcp file. Tensors may be appended in any order and from any thread. The bytes of one
// tensor must be appended in order.
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
        DistcpItem stored;
        std::int64_t written = 0;
    };
    explicit DistcpWriter(tensor::OutputFile file) : file_(std::move(file)) {}
    tensor::OutputFile file_;
    std::vector<Item> items_;
};

}  // namespace roll::formats
