#include "worker/convert/read/buckets.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <regex>
#include <tuple>

#include "worker/convert/checkpoint/dist_layout.hpp"
#include "worker/convert/checkpoint/flat_ranges.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/read/rank_reader.hpp"
#include "worker/convert/read/state_info.hpp"

namespace roll::convert {
namespace {

using formats::DcpChunk;
using formats::DcpTensor;

// Megatron aligns each parameter of a bucket to a multiple of this number of elements
constexpr std::int64_t kAlignment = 64;
constexpr std::string_view kBuckets = "optimizer.distributed.";
constexpr std::string_view kDecoder = "decoder.layers.";

// The endings of the parameters of a layer, in the order in which Megatron's modules have them.
// The first and the ninth are norms of modules without TransformerEngine.
constexpr std::array<std::string_view, 14> kOfLayer{"input_layernorm.weight",
                                                    "self_attention.linear_proj.weight",
                                                    "self_attention.linear_proj.bias",
                                                    "self_attention.linear_qkv.layer_norm_weight",
                                                    "self_attention.linear_qkv.weight",
                                                    "self_attention.linear_qkv.bias",
                                                    "self_attention.q_layernorm.weight",
                                                    "self_attention.k_layernorm.weight",
                                                    "pre_mlp_layernorm.weight",
                                                    "mlp.linear_fc1.layer_norm_weight",
                                                    "mlp.linear_fc1.weight",
                                                    "mlp.linear_fc1.bias",
                                                    "mlp.linear_fc2.weight",
                                                    "mlp.linear_fc2.bias"};
constexpr std::array<std::string_view, 3> kAround{
    "embedding.word_embeddings.weight", "decoder.final_layernorm.weight", "output_layer.weight"};

// A parameter's place in the order of the modules: before, in or after the layers; the layer; the
// place in the layer.
using Order = std::tuple<std::size_t, int, std::size_t>;

// Returns a parameter's place in the order of the modules; nullopt if it is unknown. `name` is the
// parameter's name in a rank's file.
std::optional<Order> order_of(const std::string& name) {
    for (std::size_t i = 0; i < kAround.size(); ++i)
        if (name == kAround[i]) return Order{i == 0 ? 0 : i + 1, 0, 0};
    if (!name.starts_with(kDecoder)) return std::nullopt;
    const std::size_t dot = name.find('.', kDecoder.size());
    if (dot == std::string::npos) return std::nullopt;
    const std::string_view ending = std::string_view(name).substr(dot + 1);
    const auto found = std::ranges::find(kOfLayer, ending);
    if (found == kOfLayer.end()) return std::nullopt;
    return Order{1, std::stoi(name.substr(kDecoder.size())),
                 static_cast<std::size_t>(found - kOfLayer.begin())};
}

// Identifies a model chunk (virtual pipeline stage) of a model rank. The chunk's parameters share a
// gradient buffer.
struct ChunkPlace {
    int group = 0;  // number of the rank among the model ranks: tp + pp * TP
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
            return fail(ErrorCode::Corrupt, tensor.info.name + " must have one dimension");
        found[{std::stoi(match[1]), std::stoi(match[2])}][std::stoi(match[3])] = &tensor;
    }
    return found;
}

std::int64_t aligned(std::int64_t at) { return (at + kAlignment - 1) / kAlignment * kAlignment; }

// A parameter in a bucket: elements [begin, end).
struct Place {
    const Stored* parameter = nullptr;
    std::int64_t begin = 0, end = 0;
};

tl::unexpected<Error> misfit(const std::string& name, const std::string& why) {
    return fail(ErrorCode::InvalidArgument,
                "the optimizer's buckets do not have the parameters of this model and layout: " +
                    name + " " + why,
                "save the optimizer with dist_ckpt_optim_fully_reshardable, which does not depend "
                "on the layout");
}

// Returns the parameters in each bucket. `parameters`: the chunk's parameters.
Result<std::map<int, std::vector<Place>>> places_in(const Buckets& buckets,
                                                    std::vector<const Stored*> parameters) {
    for (const Stored* one : parameters)
        if (!order_of(one->name))
            return fail(ErrorCode::InvalidArgument,
                        "the optimizer's state is of kind dp_reshardable, which Roll cannot read "
                        "for a model with " +
                            one->name,
                        "save the optimizer with dist_ckpt_optim_fully_reshardable");
    std::ranges::sort(parameters, std::greater(),
                      [](const Stored* one) { return *order_of(one->name); });
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
        return tensor.info.name.find(kBuckets) != std::string::npos;
    });
}

Result<void> read_buckets(Source& source, MappedFiles& files, const formats::DcpMetadata& metadata,
                          const WriterLayout& writer) {
    const formats::McaLayout& layout = writer.layout;
    ROLL_TRY(const auto buckets, buckets_of(metadata, source.state));
    if (buckets.empty())
        return fail(ErrorCode::InvalidArgument,
                    files.directory().string() + " has no buckets with the state " + source.state);
    ROLL_TRY(const std::vector<Stored> expected, expected_of(source, writer));
    BucketReader reader(source, files);
    std::size_t chunks = 0;
    for (int pp = 0; pp < layout.pp; ++pp)
        for (int tp = 0; tp < layout.tp; ++tp)
            for (int chunk = 0; chunk < layout.vpp; ++chunk, ++chunks) {
                const std::string file = formats::mca_rank_file(layout, {.tp = tp, .pp = pp});
                std::vector<const Stored*> parameters;
                // Megatron allocates no output layer on the stage that has the tied embedding.
                for (const Stored& one : expected)
                    if (!one.optional && one.file == file &&
                        one.section == formats::mca_chunk_key(layout, chunk))
                        parameters.push_back(&one);
                const ChunkPlace place{tp + pp * layout.tp, chunk};
                const auto own = buckets.find(place);
                if (own == buckets.end())
                    return misfit("chunk " + std::to_string(chunk) + " of " + file,
                                  "has no bucket");
                ROLL_TRY(const auto places, places_in(own->second, std::move(parameters)));
                for (const auto& [number, of_bucket] : places)
                    ROLL_TRY_VOID(reader.take(*own->second.at(number), of_bucket));
            }
    if (chunks == buckets.size()) return {};
    return misfit(files.directory().string(),
                  "has buckets of " + std::to_string(buckets.size()) + " chunks, but tp " +
                      std::to_string(layout.tp) + " x pp " + std::to_string(layout.pp) + " x vpp " +
                      std::to_string(layout.vpp) + " are " + std::to_string(chunks));
}

}  // namespace roll::convert
