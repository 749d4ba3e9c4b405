#include "worker/convert/read/buckets.hpp"

#include <algorithm>
#include <map>
#include <regex>

#include "common/counted.hpp"
#include "worker/convert/checkpoint/dist_layout.hpp"
#include "worker/convert/checkpoint/flat_ranges.hpp"
#include "worker/convert/checkpoint/gradient_buffers.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/read/rank_reader.hpp"
#include "worker/convert/read/state_info.hpp"

namespace roll::convert {
namespace {

using formats::DcpChunk;
using formats::DcpTensor;

// Identifies a model chunk (virtual pipeline stage) of a (tp, pp) rank. The chunk's parameters
// share a gradient buffer.
struct ChunkPlace {
    int group = 0;  // number of the (tp, pp) rank: tp + pp * TP
    int buffer = 0;
    friend auto operator<=>(const ChunkPlace&, const ChunkPlace&) = default;
};
using Buckets = std::map<int, const DcpTensor*>;

// Returns for each chunk the buckets that hold the optimizer state `state`, by bucket number.
Result<std::map<ChunkPlace, Buckets>> buckets_of(const formats::DcpMetadata& metadata,
                                                 const std::string& state) {
    const std::regex pattern(
        R"(optimizer\.distributed\.dp_group_idx_(\d{1,6})\.gbuf_idx_(\d{1,6})\.dtype_.*)"
        R"(\.bucket_idx_(\d{1,6})\.([a-z_0-9]+))");
    std::map<ChunkPlace, Buckets> found;
    for (const DcpTensor& tensor : metadata.tensors) {
        std::smatch match;
        if (!std::regex_match(tensor.info.name, match, pattern) ||
            canonical_state(match[4].str()) != canonical_state(state))
            continue;
        if (tensor.info.shape.size() != 1)
            return fail(
                ErrorCode::Corrupt,
                tensor.info.name + " must have exactly one dimension; copy the checkpoint again");
        found[{std::stoi(match[1]), std::stoi(match[2])}][std::stoi(match[3])] = &tensor;
    }
    return found;
}

// A parameter in a bucket: elements [begin, end).
struct Place {
    const Stored* parameter = nullptr;
    std::int64_t begin = 0, end = 0;
};

tl::unexpected<Error> misfit(const std::string& name, const std::string& why) {
    return fail(
        ErrorCode::InvalidArgument,
        "the optimizer's gradient buckets do not fit the parameters of this model and layout: " +
            name + " " + why,
        "save the optimizer with dist_ckpt_optim_fully_reshardable, which does not depend "
        "on the layout");
}

// Returns the parameters in each bucket. `parameters`: the chunk's parameters, in the order of the
// buffer.
Result<std::map<int, std::vector<Place>>> places_in(const Buckets& buckets,
                                                    const std::vector<const Stored*>& parameters) {
    std::map<int, std::vector<Place>> places;
    auto bucket = buckets.begin();
    std::int64_t at = 0;
    for (const Stored* one : parameters) {
        if (bucket == buckets.end()) return misfit(one->name, "is in no bucket");
        const std::int64_t size = bucket->second->info.shape[0];
        const std::int64_t begin = aligned(at);
        at = begin + tensor::volume(one->shape);
        if (at > size)
            return misfit(one->name, "ends at element " + std::to_string(at) + " of " +
                                         bucket->second->info.name + ", which has " +
                                         std::to_string(size));
        places[bucket->first].push_back({one, begin, at});
        if (at < size && aligned(at) < size) continue;
        ++bucket;
        at = 0;
    }
    if (bucket != buckets.end())
        return misfit(bucket->second->info.name, "has elements beyond the last parameter");
    return places;
}

class BucketReader {
  public:
    BucketReader(Source& source, MappedFiles& files) : source_(source), files_(files) {}

    Result<void> take(const DcpTensor& bucket, const std::vector<Place>& places) {
        for (const DcpChunk& chunk : bucket.chunks) {
            ROLL_TRY(const auto bytes, files_.bytes_of(chunk.extent.file));
            ROLL_TRY(const tensor::StridedView view,
                     formats::open_dcp_chunk(files_.directory() / chunk.extent.file, bytes,
                                             bucket.info, chunk));
            for (const Place& place : places) take_part(chunk, view, place);
        }
        return {};
    }

  private:
    // Adds the part of a parameter that is in the chunk, as boxes of the parameter.
    void take_part(const DcpChunk& chunk, const tensor::StridedView& view, const Place& place) {
        const std::int64_t element = tensor::bits_of(view.info.dtype) / 8;
        const std::int64_t from = std::max(chunk.begin[0], place.begin);
        const std::int64_t to = std::min(chunk.begin[0] + chunk.size[0], place.end);
        const auto add = [&](const Shape& begin, const Shape& size, std::int64_t first) {
            Stored stored = cut(*place.parameter, begin, size);
            if (stored.pieces.empty()) return;  // the box has only padding rows
            stored.file = chunk.extent.file;
            source_.tensors.push_back({std::move(stored),
                                       {{view.info.name, view.info.dtype, size},
                                        tensor::row_major(size),
                                        view.first + (from - chunk.begin[0] + first) * element}});
        };
        boxes_of_range(place.parameter->shape, from - place.begin, to - place.begin, add);
    }

    Source& source_;
    MappedFiles& files_;
};

// Returns the tensors in each rank's file, for the layout in which the writer divided the model.
Result<std::vector<Stored>> expected_of(const Source& source, const WriterLayout& writer) {
    formats::McaConfig config = source.config;
    config.layout = writer.layout;
    config.local_names = writer.local_names;
    config.padded_vocab = writer.padded_vocab > vocabulary_of(source) ? writer.padded_vocab : 0;
    return mca_layout(source.native, source.model, config);
}

}  // namespace

bool has_buckets(const formats::DcpMetadata& metadata) {
    return std::ranges::any_of(metadata.tensors, [](const DcpTensor& tensor) {
        return tensor.info.name.find(kBucketKeys) != std::string::npos;
    });
}

Result<void> read_buckets(Source& source, MappedFiles& files, const formats::DcpMetadata& metadata,
                          const WriterLayout& writer) {
    const formats::McaLayout& layout = writer.layout;
    ROLL_TRY(const auto buckets, buckets_of(metadata, source.state));
    if (buckets.empty())
        return fail(ErrorCode::InvalidArgument,
                    files.directory().string() +
                        " has no gradient buckets with the optimizer state " + source.state);
    ROLL_TRY(const std::vector<Stored> expected, expected_of(source, writer));
    ROLL_TRY(const auto buffers, gradient_buffers(expected, layout));
    BucketReader reader(source, files);
    for (const GradientBuffer& buffer : buffers) {
        const auto own = buckets.find({buffer.group, buffer.number});
        if (own == buckets.end()) return misfit(buffer.place, "has no bucket");
        ROLL_TRY(const auto places, places_in(own->second, buffer.parameters));
        for (const auto& [number, of_bucket] : places)
            ROLL_TRY_VOID(reader.take(*own->second.at(number), of_bucket));
    }
    if (buffers.size() == buckets.size()) return {};
    return misfit(files.directory().string(),
                  "has buckets of " + counted(buckets.size(), "chunk") + ", but tp " +
                      std::to_string(layout.tp) + " x pp " + std::to_string(layout.pp) + " x vpp " +
                      std::to_string(layout.vpp) + " are " + std::to_string(buffers.size()));
}

}  // namespace roll::convert
