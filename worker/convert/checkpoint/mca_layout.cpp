#include "worker/convert/checkpoint/mca_layout.hpp"

#include <array>
#include <string_view>

#include "common/check.hpp"
#include "worker/layout/shards.hpp"

namespace roll::convert {
namespace {

using families::NativeTensor;

// Pairs of name endings: the ending with TransformerEngine, and the ending without it.
constexpr std::array<std::pair<const char*, const char*>, 5> kSpellings{
    {{".self_attention.linear_qkv.layer_norm_weight", ".input_layernorm.weight"},
     {".mlp.linear_fc1.layer_norm_weight", ".pre_mlp_layernorm.weight"},
     {".linear_q_up_proj.layer_norm_weight", ".q_layernorm.weight"},
     {".linear_kv_up_proj.layer_norm_weight", ".kv_layernorm.weight"},
     {".self_attention.in_proj.layer_norm_weight", ".input_layernorm.weight"}}};
constexpr const char* kExperts = ".experts.local_experts.";

// Returns the boxes of a shard as pieces. Pieces refer to the model's HuggingFace tensors by
// number.
std::vector<Piece> pieces_of(layout::Shard shard, const NativeTensor& tensor, const Model& model) {
    std::vector<Piece> pieces;
    for (layout::Box& box : shard.boxes)
        pieces.push_back({.hf = model.number.at(tensor.sources[box.source].name),
                          .begin = std::move(box.begin),
                          .size = std::move(box.size),
                          .stored_begin = std::move(box.local),
                          .add = tensor.add});
    return pieces;
}

Stored stored_of(layout::Held held, const NativeTensor& tensor, const Model& model,
                 const formats::McaConfig& config, const formats::McaRank& rank) {
    std::string name = config.local_names ? local_spelling(held.name) : std::move(held.name);
    if (held.expert && config.grouped_experts)
        name = grouped_spelling(std::move(name), *held.expert);
    Stored stored{formats::mca_rank_file(config.layout, rank),
                  formats::mca_chunk_key(config.layout, held.chunk), std::move(name),
                  held.shard.shape, pieces_of(std::move(held.shard), tensor, model)};
    // The tied output layer is a copy of the embedding. If there is only one pipeline stage, it has
    // both tensors, and only some writers store the copy.
    stored.optional = held.tied_output && config.layout.pp == 1 && config.layout.vpp == 1;
    return stored;
}

constexpr const char* kNewer = ".mtp_model_layer.";
constexpr const char* kOlder = ".transformer_layer.";

std::string respelled(std::string name, const std::string& from, const char* to) {
    const std::size_t at = name.find(from);
    return at == std::string::npos ? name : name.replace(at, from.size(), to);
}

// Returns the name with the ending `to` instead of `from`.
std::string with_ending(const std::string& name, std::string_view from, const char* to) {
    return name.substr(0, name.size() - from.size()) + to;
}

// Returns "…experts.linear_fc1.weight5" if `grouped` is true, else
// "…experts.local_experts.5.linear_fc1.weight".
std::string expert_name(const std::string& front, int layer, std::int64_t expert, bool grouped) {
    const std::string number = std::to_string(expert);
    const std::string linear = "linear_fc" + std::to_string(layer) + ".weight";
    return grouped ? front + ".experts." + linear + number
                   : front + kExperts + number + "." + linear;
}

}  // namespace

std::vector<tensor::StridedView> experts_of(const tensor::StridedView& grouped,
                                            const formats::McaConfig& config) {
    const std::string& name = grouped.info.name;
    const std::size_t at = name.rfind(".experts.weight");
    const bool first = name.ends_with(".experts.weight1");
    const Shape& shape = grouped.info.shape;
    if (at == std::string::npos || (!first && !name.ends_with(".experts.weight2")) ||
        shape.size() != 2 || grouped.strides != tensor::row_major(shape))
        return {};
    const auto all = config.native.value("num_moe_experts", Json());
    const std::int64_t experts =
        all.is_number_integer() ? all.get<std::int64_t>() / config.layout.ep : 0;
    const std::int64_t columns = first ? shape[1] : shape[0];
    if (experts <= 0 || columns % experts != 0) return {};
    const std::int64_t rows = columns / experts;
    const std::int64_t hidden = first ? shape[0] : shape[1];
    std::vector<tensor::StridedView> found;
    for (std::int64_t expert = 0; expert < experts; ++expert) {
        tensor::StridedView one = grouped;
        one.info.name =
            expert_name(name.substr(0, at), first ? 1 : 2, expert, config.grouped_experts);
        one.info.shape = first ? Shape{rows, hidden} : Shape{hidden, rows};
        one.strides = {1, first ? rows : hidden};
        one.first += expert * rows * hidden * (tensor::bits_of(grouped.info.dtype) / 8);
        found.push_back(std::move(one));
    }
    return found;
}

Result<Stored> whole_native(const NativeTensor& tensor, const Model& model) {
    ROLL_TRY(layout::Shard whole, layout::shard_of(tensor, 1, 0));
    Stored stored;
    stored.name = tensor.name;
    stored.shape = whole.shape;
    stored.pieces = pieces_of(std::move(whole), tensor, model);
    return stored;
}

Result<std::vector<Stored>> mca_layout(const std::vector<NativeTensor>& native, const Model& model,
                                       const formats::McaConfig& config) {
    const formats::McaLayout& layout = config.layout;
    std::vector<Stored> stored;
    formats::McaRank rank;
    for (rank.pp = 0; rank.pp < layout.pp; ++rank.pp)
        for (rank.ep = 0; rank.ep < layout.ep; ++rank.ep)
            for (rank.tp = 0; rank.tp < layout.tp; ++rank.tp) {
                if (!formats::mca_has_rank(layout, rank)) continue;
                ROLL_TRY(std::vector<layout::Held> all,
                         layout::held_by(native, layout, config.padded_vocab, rank));
                for (layout::Held& held : all) {
                    const NativeTensor& tensor = native[held.tensor];
                    stored.push_back(stored_of(std::move(held), tensor, model, config, rank));
                }
            }
    return stored;
}

Result<void> check_whole_groups(const formats::McaConfig& config) {
    const auto groups = config.native.value("num_query_groups", std::int64_t{0});
    if (groups % config.layout.tp == 0) return {};
    return fail(ErrorCode::InvalidArgument,
                "tensor parallelism must not split a query group: num_query_groups " +
                    std::to_string(groups) + " is not divisible by tp " +
                    std::to_string(config.layout.tp));
}

std::string grouped_spelling(std::string name, std::int64_t expert) {
    const std::string part = kExperts + std::to_string(expert) + ".";
    const std::size_t at = name.find(part);
    if (at == std::string::npos) return name;  // families that users add may have other names
    return name.replace(at, part.size(), ".experts.") + std::to_string(expert);
}

std::string local_spelling(const std::string& name) {
    for (const auto& [with, without] : kSpellings)
        if (name.ends_with(with)) return with_ending(name, with, without);
    return name;
}

std::string older_spelling(const std::string& name) { return respelled(name, kNewer, kOlder); }

std::string newer_spelling(const std::string& name) { return respelled(name, kOlder, kNewer); }

std::string transformer_engine_spelling(const std::string& name) {
    for (const auto& [with, without] : kSpellings)
        if (name.ends_with(without)) return with_ending(name, without, with);
    return name;
}

}  // namespace roll::convert
