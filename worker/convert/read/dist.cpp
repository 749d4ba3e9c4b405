#include "worker/convert/read/dist.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "common/counted.hpp"
#include "common/damage.hpp"
#include "common/files.hpp"
#include "worker/convert/checkpoint/config.hpp"
#include "worker/convert/checkpoint/dist_layout.hpp"
#include "worker/convert/checkpoint/flat_ranges.hpp"
#include "worker/convert/checkpoint/matcher.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/checkpoint/variants.hpp"
#include "worker/convert/read/mapped_files.hpp"
#include "worker/convert/read/state_info.hpp"
#include "worker/formats/dcp.hpp"
#include "worker/formats/megatron.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMark = "metadata.json";

// Returns all keys under which the checkpoint may store a tensor of the model. Keys are native or
// HuggingFace names. The keys include the output layer even if it is tied, because some checkpoints
// store a tied output layer as a copy of the embedding.
Result<DistKeys> expected_keys(const Source& source, const formats::DcpMetadata& metadata) {
    const bool singletons =
        std::any_of(metadata.tensors.begin(), metadata.tensors.end(), [](const auto& tensor) {
            for (const char* part :
                 {".weight_w", ".experts.local_experts.", ".mlp.experts.linear_"})
                if (tensor.info.name.find(part) != std::string::npos) return true;
            return false;
        });
    ROLL_TRY(DistKeys keys, dist_keys(source.native, source.model, singletons));
    for (const auto& layout : {hf_layout(source.model), hf_disk_layout(source.model)})
        for (Stored whole : layout) {
            const std::string name = whole.name;
            whole.whole = whole.shape;
            whole.origin.assign(whole.shape.size(), 0);
            keys.try_emplace(name, DistTensor{{}, false, whole.shape, {whole}});
        }
    const auto embedding = keys.find("embedding.word_embeddings.weight");
    if (embedding != keys.end()) {
        const DistTensor copy = embedding->second;
        keys.try_emplace("output_layer.weight", copy);
        for (const families::WeightRule& rule : source.family->weights)
            if (rule.native == "output_layer.weight") keys.try_emplace(rule.hf[0], copy);
    }
    return keys;
}

// Returns true if a key belongs to an optimizer. Such a key is "optimizer.…" or "optim.…", or
// "NAME.optim.…" inside another object, such as "app.optim.…" of an AppState.
bool is_optimizer(const std::string& key) {
    const std::size_t dot = key.find('.');
    return key.starts_with("optim") ||
           (dot != std::string::npos && key.compare(dot + 1, std::strlen("optim"), "optim") == 0);
}

// Returns the name of the parameter whose optimizer state `state` is stored under `key`. Returns
// nullopt if `key` stores anything else. For the state exp_avg of the parameter NAME, the key is
// "optimizer.state.exp_avg.NAME" in torch_dist and "optimizer.state.module.NAME.exp_avg" in
// fsdp_dtensor.
std::optional<std::string> name_in_state(const std::string& key, const std::string& state) {
    const std::string infix = ".state.";
    const std::size_t at = key.find(infix);
    if (!is_optimizer(key) || at == std::string::npos) return std::nullopt;
    std::string name = key.substr(at + infix.size());
    const std::size_t dot = name.find('.');
    if (dot != std::string::npos && canonical_state(name.substr(0, dot)) == canonical_state(state))
        return name.substr(dot + 1);
    if (!name.ends_with("." + state)) return std::nullopt;
    name.resize(name.size() - state.size() - 1);
    while (name.starts_with("module.")) name.erase(0, std::strlen("module."));
    return name;
}

// Some writers add a prefix, such as "model." or "module.", to all keys. Returns the most frequent
// prefix among the keys of the model's tensors.
std::string common_prefix(const formats::DcpMetadata& metadata, const DistKeys& keys) {
    std::map<std::string, int> found;
    for (const formats::DcpTensor& tensor : metadata.tensors) {
        const std::string& key = tensor.info.name;
        if (is_optimizer(key)) continue;
        std::size_t at = 0;
        while (at != std::string::npos) {
            if (at > 0) ++at;  // skip the dot
            if (keys.contains(key.substr(at))) ++found[key.substr(0, at)];
            at = key.find('.', at);
        }
    }
    std::string best;
    for (const auto& [prefix, count] : found)
        if (count > found[best]) best = prefix;
    return best;
}

class DistOpener {
  public:
    DistOpener(Source& source, fs::path directory, DistKeys keys, const WriterLayout* writer)
        : source_(source),
          directory_(std::move(directory)),
          keys_(std::move(keys)),
          writer_(writer),
          files_(source, directory_) {}

    Result<void> open(const formats::DcpMetadata& metadata) {
        const std::string prefix = common_prefix(metadata, keys_);
        if (!source_.state.empty()) ROLL_TRY_VOID(take_state(metadata));
        for (const formats::DcpTensor& tensor : metadata.tensors) {
            for (const formats::DcpChunk& chunk : tensor.chunks)
                ROLL_TRY_VOID(check_extent(tensor.info.name, chunk.extent));
            ROLL_TRY_VOID(take(tensor, prefix));
        }
        for (const formats::DcpObject& object : metadata.objects) {
            ROLL_TRY_VOID(check_extent(object.name, object.extent));
            drop(object.name, object.name.find("_extra_state") != std::string::npos
                                  ? "TransformerEngine's state"
                                  : "is an object, not a tensor");
        }
        if (!unexpected_.empty() && !allows_missing(source_.matching.strictness))
            return no_rule_names(source_, directory_ / formats::kDcpMetadataFile, unexpected_, {});
        for (const std::string& name : unexpected_)
            ROLL_TRY_VOID(drop_surplus(source_, formats::kDcpMetadataFile, name));
        return check_nothing_missing(source_);
    }

  private:
    // Checks that the file has all bytes of a tensor or an object, even if they are not read.
    // Accepts a missing file, because a missing file that must be read is reported when it is
    // opened.
    Result<void> check_extent(const std::string& name, const formats::DcpExtent& extent) {
        const fs::path path = directory_ / extent.file;
        const auto [known, is_new] = sizes_.try_emplace(extent.file);
        if (is_new) {
            std::error_code error;
            const auto size = fs::file_size(path, error);
            if (!error) known->second = static_cast<std::int64_t>(size);
        }
        const auto& size = known->second;
        if (!size || (extent.begin <= *size && extent.size <= *size - extent.begin)) return {};
        return fail(ErrorCode::Corrupt, path.string() + " ends before " + name, kCopyAgain);
    }

    void drop(const std::string& key, const std::string& rule) {
        source_.matching.dropped.push_back({formats::kDcpMetadataFile, key, rule});
    }

    // Adds the tensors of the optimizer state source_.state to the source, in place of the weights.
    Result<void> take_state(const formats::DcpMetadata& metadata) {
        if (has_buckets(metadata)) return take_buckets(metadata);
        for (const formats::DcpTensor& tensor : metadata.tensors) {
            const auto name = name_in_state(tensor.info.name, source_.state);
            if (!name) continue;
            const auto known = keys_.find(older_spelling(*name));
            if (known == keys_.end()) {
                unexpected_.push_back(tensor.info.name);
                continue;
            }
            held_.insert(known->first);
            ROLL_TRY_VOID(take_known(tensor, known->second));
        }
        if (!held_.empty()) return {};
        return fail(ErrorCode::InvalidArgument,
                    directory_.string() + " has no tensor optimizer.state." + source_.state + ".*",
                    "rollctl inspect lists the keys; fp32_param, exp_avg and exp_avg_sq are "
                    "usual");
    }

    // Adds the optimizer state source_.state from Megatron's gradient buckets (dp_reshardable) to
    // the source. The buckets hold the state of all parameters.
    Result<void> take_buckets(const formats::DcpMetadata& metadata) {
        if (writer_ == nullptr)
            return fail(ErrorCode::InvalidArgument,
                        directory_.string() +
                            " has optimizer state of kind dp_reshardable, but does not say how "
                            "the model was divided: it has neither the arguments of its run nor "
                            "mca_config.json");
        ROLL_TRY_VOID(read_buckets(source_, files_, metadata, *writer_));
        for (const families::NativeTensor& tensor : source_.native)
            for (const std::string& name : dist_names(tensor)) held_.insert(name);
        return {};
    }

    // Returns true if the optimizer's state is read in place of the model's tensor `name`. With
    // kMainWeights (the fp32 copies of the weights), only tensors that have such a copy are
    // replaced; others, such as buffers, are read from the model. With any other state, no tensor
    // of the model is read.
    bool is_held(const std::string& name) const {
        return !source_.state.empty() &&
               (canonical_state(source_.state) != kMainWeights || held_.contains(name));
    }

    Result<void> take(const formats::DcpTensor& tensor, const std::string& prefix) {
        const std::string& key = tensor.info.name;
        const std::string name =
            older_spelling(key.starts_with(prefix) ? key.substr(prefix.size()) : key);
        auto known = keys_.find(name);
        if (known == keys_.end()) known = keys_.find(other_spelling(*source_.family, name));
        if (is_optimizer(key)) {
            if (source_.state.empty() || !name_in_state(key, source_.state))
                drop(key, "the optimizer's state");
        } else if (known != keys_.end() && is_held(name)) {
            drop(key, "the optimizer's " + source_.state + " is read instead");
        } else if (known != keys_.end()) {
            return take_known(tensor, known->second);
        } else if (key.ends_with("_extra_state")) {
            drop(key, "TransformerEngine's state");
        } else if (is_dropped(*source_.family, name)) {
            drop(key, "the family file drops this tensor");
        } else {
            unexpected_.push_back(key);
        }
        return {};
    }

    // Returns true if `shape` differs from `whole` only by additional rows. Megatron pads the
    // vocabulary with such rows.
    static bool is_padded(const Shape& shape, const Shape& whole, const std::string& name) {
        return (name == "embedding.word_embeddings.weight" || name == "output_layer.weight") &&
               shape.size() == 2 && shape[1] == whole[1] && shape[0] > whole[0];
    }

    Result<void> take_known(const formats::DcpTensor& tensor, const DistTensor& known) {
        const Shape& whole = known.parts.front().whole;
        const Shape& shape = tensor.original ? *tensor.original : tensor.info.shape;
        if (shape != whole) {
            if (!is_padded(shape, whole, known.parts.front().name))
                return fail(ErrorCode::Corrupt,
                            (directory_ / formats::kDcpMetadataFile).string() + ": " +
                                tensor.info.name + " has shape " + tensor::to_string(shape) +
                                "; the config says " + tensor::to_string(whole));
            drop(tensor.info.name, counted(shape[0] - whole[0], "padding row") +
                                       " after the vocabulary of " + std::to_string(whole[0]));
        }
        for (const formats::DcpChunk& chunk : tensor.chunks) {
            ROLL_TRY(const auto file, files_.bytes_of(chunk.extent.file));
            ROLL_TRY(
                const tensor::StridedView view,
                formats::open_dcp_chunk(directory_ / chunk.extent.file, file, tensor.info, chunk));
            if (tensor.original) {
                ROLL_TRY_VOID(take_flat(tensor, chunk, view, known));
            } else {
                take_chunk(chunk, view, known);
            }
        }
        return {};
    }

    // Adds a chunk whose elements are a range of a flattened shard to the source. The shard is one
    // rank's rectangular block of the whole tensor. The range is split into smaller rectangular
    // blocks, which are added one by one.
    Result<void> take_flat(const formats::DcpTensor& tensor, const formats::DcpChunk& chunk,
                           const tensor::StridedView& view, const DistTensor& known) {
        const std::size_t flat = tensor.original->size();
        Shape local;
        for (std::size_t dim = 0; dim < flat; ++dim) {
            local.push_back((*tensor.original)[dim] / tensor.info.shape[dim]);
            if (chunk.size[dim] != 1)
                return fail(
                    ErrorCode::Corrupt,
                    (directory_ / formats::kDcpMetadataFile).string() + ": a chunk of " +
                        tensor.info.name +
                        " is flat but covers more than one rank; copy the checkpoint again");
        }
        const std::int64_t element = tensor::bits_of(view.info.dtype) / 8;
        boxes_of_range(local, chunk.begin[flat], chunk.begin[flat] + chunk.size[flat],
                       [&](const Shape& begin, const Shape& size, std::int64_t first) {
                           formats::DcpChunk box{begin, size, chunk.extent};
                           for (std::size_t dim = 0; dim < flat; ++dim)
                               box.begin[dim] += chunk.begin[dim] * local[dim];
                           take_chunk(box,
                                      {{view.info.name, view.info.dtype, size},
                                       tensor::row_major(size),
                                       view.first + first * element},
                                      known);
                       });
        return {};
    }

    // Adds a chunk to the source. If the chunk stacks several layers or experts, adds one tensor
    // for each layer or expert.
    void take_chunk(const formats::DcpChunk& chunk, const tensor::StridedView& view,
                    const DistTensor& known) {
        const std::size_t axes = known.stacked.size();
        Shape at(chunk.begin.begin(), chunk.begin.begin() + static_cast<std::ptrdiff_t>(axes));
        std::int64_t count = 1;
        for (std::size_t dim = 0; dim < axes; ++dim) count *= chunk.size[dim];
        for (std::int64_t i = 0; i < count; ++i) {
            std::int64_t rest = i;
            std::int64_t part = 0;
            for (std::size_t dim = axes; dim-- > 0; rest /= chunk.size[dim])
                at[dim] = chunk.begin[dim] + rest % chunk.size[dim];
            for (std::size_t dim = 0; dim < axes; ++dim) part = part * known.stacked[dim] + at[dim];
            add_part(known.parts[static_cast<std::size_t>(part)], chunk, view, at);
        }
    }

    void add_part(const Stored& part, const formats::DcpChunk& chunk,
                  const tensor::StridedView& view, const Shape& at) {
        const std::size_t axes = at.size();
        tensor::StridedView inner;
        inner.info = {view.info.name, view.info.dtype, {}};
        inner.first = view.first;
        for (std::size_t dim = 0; dim < axes; ++dim)
            inner.first += (at[dim] - chunk.begin[dim]) * view.strides[dim] *
                           (tensor::bits_of(view.info.dtype) / 8);
        Shape begin;
        for (std::size_t dim = axes; dim < chunk.begin.size(); ++dim) {
            const std::int64_t end =
                std::min(chunk.begin[dim] + chunk.size[dim], part.shape[dim - axes]);
            if (end <= chunk.begin[dim]) return;  // this chunk has only padding
            begin.push_back(chunk.begin[dim]);
            inner.info.shape.push_back(end - chunk.begin[dim]);
            inner.strides.push_back(view.strides[dim]);
        }
        Stored stored = cut(part, begin, inner.info.shape);
        stored.file = chunk.extent.file;
        stored.whole = part.whole;
        stored.origin = at;
        stored.origin.insert(stored.origin.end(), begin.begin(), begin.end());
        inner.info.name = stored.name;
        source_.tensors.push_back({std::move(stored), std::move(inner)});
    }

    Source& source_;
    fs::path directory_;
    DistKeys keys_;
    const WriterLayout* writer_;
    MappedFiles files_;
    std::vector<std::string> unexpected_;
    // sizes of files in bytes, by path; nullopt: the file is missing
    std::map<std::string, std::optional<std::int64_t>> sizes_;
    std::set<std::string> held_;  // names of the tensors that have the requested optimizer state
};

}  // namespace

std::optional<fs::path> dist_directory(const fs::path& root) {
    std::vector<fs::path> places{root, root / "weights", root / "model_weights"};
    if (const auto iteration = formats::mca_iteration_directory(root)) {
        places.push_back(*iteration);
        places.push_back(*iteration / "dist_model");
    }
    for (const fs::path& place : places)
        if (is_file(place / formats::kDcpMetadataFile)) return place;
    return std::nullopt;
}

Result<Format> dist_format(const fs::path& directory) {
    if (!is_file(directory / kMark)) return Format::Dcp;
    ROLL_TRY(const std::string text, read_regular_file(directory / kMark));
    const auto json = parse_json(text);
    const bool is_known = json && json->is_object() && json->contains("sharded_backend") &&
                          (*json)["sharded_backend"] == "torch_dist";
    if (is_known) return Format::TorchDist;
    return fail(ErrorCode::InvalidArgument,
                (directory / kMark).string() +
                    " must have \"sharded_backend\": \"torch_dist\"; Roll reads no other format of "
                    "distributed checkpoints with this file");
}

namespace {

// Returns the arguments of the Megatron run that wrote the checkpoint. They are in common.pt or,
// with newer writers, in an object of the checkpoint. Returns an empty MegatronState if neither
// exists. Fails with Corrupt if the file or the object is damaged.
Result<formats::MegatronState> run_state(const fs::path& directory,
                                         const formats::DcpMetadata& metadata) {
    const auto args_of =
        [](const Result<formats::TorchFile>& file) -> Result<formats::MegatronState> {
        if (!file) return tl::unexpected(file.error());
        return formats::read_megatron_state(*file);
    };
    for (const fs::path& place : {directory, directory.parent_path()})
        if (is_file(place / "common.pt"))
            return args_of(formats::TorchFile::open(place / "common.pt"));
    for (const formats::DcpObject& object : metadata.objects) {
        if (!object.name.starts_with("common_state/")) continue;
        const fs::path path = directory / object.extent.file;
        ROLL_TRY(const MappedFile file, MappedFile::open(path));
        const auto size = static_cast<std::int64_t>(file.bytes().size());
        if (object.extent.begin > size || object.extent.size > size - object.extent.begin)
            return fail(ErrorCode::Corrupt, path.string() + " ends before " + object.name);
        return args_of(formats::TorchFile::parse(
            path, file.bytes().subspan(static_cast<std::size_t>(object.extent.begin),
                                       static_cast<std::size_t>(object.extent.size))));
    }
    return formats::MegatronState();
}

// Derives from the checkpoint's keys two facts that the config does not contain: how expert tensors
// are packed, and which of the family's carried tensors (tensors that are copied unchanged) exist.
Result<void> look_for_more(Source& source, const formats::DcpMetadata& metadata) {
    if (source.family->packed.empty() && source.family->carried.empty()) return {};
    ROLL_TRY(const DistKeys keys, expected_keys(source, metadata));
    const std::string prefix = common_prefix(metadata, keys);
    Shapes found;
    for (const formats::DcpTensor& tensor : metadata.tensors)
        if (tensor.info.name.starts_with(prefix))
            found.emplace(tensor.info.name.substr(prefix.size()), tensor.info.shape);
    if (found.contains("embedding.word_embeddings.weight")) {
        carry_native(source, found);
        return {};
    }
    carry_hf(source, found);
    return settle_packed(source, found);
}

// Returns how a run with these arguments divided the model; nullopt if there are no arguments.
std::optional<WriterLayout> writer_of(const formats::MegatronState& state) {
    if (!state.has_args) return std::nullopt;
    WriterLayout writer{.layout = state.layout};
    const Json rows = state.args.value("padded_vocab_size", Json());
    if (rows.is_number_integer()) writer.padded_vocab = rows.get<std::int64_t>();
    writer.local_names = state.args.value("transformer_impl", Json()) == "local";
    return writer;
}

Result<void> read_dist(Source& source, const fs::path& directory,
                       const formats::DcpMetadata& metadata, const WriterLayout* writer) {
    // The layout of the writer is not needed, because each key describes a whole tensor.
    source.config.layout = {};
    const bool has_mtp = std::any_of(metadata.tensors.begin(), metadata.tensors.end(),
                                     [](const formats::DcpTensor& tensor) {
                                         return !is_optimizer(tensor.info.name) &&
                                                tensor.info.name.find("mtp.") != std::string::npos;
                                     });
    ROLL_TRY_VOID(use_tensors(source, has_mtp));
    ROLL_TRY_VOID(look_for_more(source, metadata));
    return read_dist_tensors(source, directory, metadata, writer);
}

}  // namespace

Result<void> read_dist_tensors(Source& source, const fs::path& directory,
                               const formats::DcpMetadata& metadata, const WriterLayout* writer) {
    ROLL_TRY(DistKeys keys, expected_keys(source, metadata));
    return DistOpener(source, directory, std::move(keys), writer).open(metadata);
}

Result<void> open_dist(Source& source, const families::Families& families, const fs::path& given) {
    const auto directory = dist_directory(source.directory);
    if (!directory)
        return fail(ErrorCode::NotFound, source.directory.string() + " has no .metadata");
    ROLL_TRY(const formats::DcpMetadata metadata, formats::read_dcp_metadata(*directory));
    ROLL_TRY(const formats::MegatronState state, run_state(*directory, metadata));
    const Json args = state.has_args ? state.args : Json();
    const auto writer = writer_of(state);
    return open_with_config(source, families,
                            {source.directory, *directory, directory->parent_path(),
                             directory->parent_path().parent_path()},
                            given, args, [&](Source& one) {
                                return read_dist(one, *directory, metadata,
                                                 writer ? &*writer : nullptr);
                            });
}

Result<void> open_dist_optimizer(Source& source, const families::Families& families,
                                 const fs::path& directory) {
    ROLL_TRY(const formats::DcpMetadata metadata, formats::read_dcp_metadata(directory));
    ROLL_TRY_VOID(use_mca_config(source, source.directory, families));
    const WriterLayout writer{source.config.layout, source.config.padded_vocab,
                              source.config.local_names};
    return read_dist(source, directory, metadata, &writer);
}

}  // namespace roll::convert
