// Fuzzes the `.metadata` of torch.distributed.checkpoint. Any bytes are refused, or every chunk is
// inside its tensor and has a file inside the directory, and the metadata that we write for them
// reads back as the same.
#include <filesystem>

#include "common/check.hpp"
#include "common/tensor/output_file.hpp"
#include "tests/fuzz/input.hpp"
#include "worker/formats/dcp.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using roll::formats::parse_dcp_metadata;
    const auto metadata = parse_dcp_metadata(roll::fuzz::bytes_of(data, size));
    if (!metadata) return 0;
    for (const roll::formats::DcpTensor& tensor : metadata->tensors) {
        if (tensor.original)  // a whole number of rank shards per dim
            for (std::size_t dim = 0; dim < tensor.original->size(); ++dim)
                ROLL_CHECK((*tensor.original)[dim] % tensor.info.shape[dim] == 0);
        for (const roll::formats::DcpChunk& chunk : tensor.chunks) {
            ROLL_CHECK(chunk.begin.size() == tensor.info.shape.size());
            for (std::size_t dim = 0; dim < chunk.begin.size(); ++dim)
                ROLL_CHECK(chunk.begin[dim] >= 0 &&
                           chunk.begin[dim] + chunk.size[dim] <= tensor.info.shape[dim]);
            const std::filesystem::path file = chunk.extent.file;  // may be in a subfolder
            ROLL_CHECK(file.is_relative() && *file.lexically_normal().begin() != "..");
        }
    }
    const std::string again = roll::formats::dcp_metadata_pickle(*metadata);
    const auto reread = parse_dcp_metadata(roll::tensor::as_bytes(again));
    ROLL_CHECK(reread && reread->tensors.size() == metadata->tensors.size());
    for (std::size_t i = 0; i < metadata->tensors.size(); ++i)
        ROLL_CHECK(reread->tensors[i].original == metadata->tensors[i].original);
    return 0;
}
