// Reads the optimizer's state of Megatron's kind dp_reshardable. A key holds one bucket of a
// gradient buffer (checkpoint/gradient_buffers.hpp). The file does not say which parameter is
// where; the places follow from the layout of the run that wrote the file.
#pragma once

#include <cstdint>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"
#include "worker/convert/read/mapped_files.hpp"
#include "worker/formats/dcp.hpp"

namespace roll::convert {

// The way in which the run that wrote a checkpoint divided the model.
struct WriterLayout {
    formats::McaLayout layout;
    std::int64_t padded_vocab = 0;  // rows of the embedding with padding; 0: no padding
    bool local_names = false;       // true: the model was built without TransformerEngine
};

// Returns true if the checkpoint has the optimizer's state in buckets.
bool has_buckets(const formats::DcpMetadata& metadata);

// Reads the optimizer state that source.state names, for all native tensors, and adds it to
// source.tensors. Requires that the family and the model of `source` are set. Fails with
// InvalidArgument if the checkpoint has no such state, or if the buckets do not have the sizes that
// follow from `writer`.
Result<void> read_buckets(Source& source, MappedFiles& files, const formats::DcpMetadata& metadata,
                          const WriterLayout& writer);

}  // namespace roll::convert
