#include "worker/convert/mca_layout.hpp"

#include <array>

#include "common/check.hpp"
#include "worker/layout/stages.hpp"

namespace roll::convert {
namespace {

using families::NativeTensor;
using families::Operation;
using families::Split;
using families::Stage;

constexpr const char* kEmbedding = "embedding.word_embeddings.weight";
constexpr const char* kOutput = "output_layer.weight";

// Pairs of name endings: in a model with TransformerEngine, and without it.
constexpr std::array<std::pair<const char*, const char*>, 5> kSpellings{
    {{".self_attention.linear_qkv.layer_norm_weight", ".input_layernorm.weight"},
     {".mlp.linear_fc1.layer_norm_weight", ".pre_mlp_layernorm.weight"},
     {".linear_q_up_proj.layer_norm_weight", ".q_layernorm.weight"},
     {".linear_kv_up_proj.layer_norm_weight", ".kv_layernorm.weight"},
     {".self_attention.in_proj.layer_norm_weight", ".input_layernorm.weight"}}};
constexpr const char* kExperts = ".experts.local_experts.";

tl::unexpected<Error> not_divisible(const std::string& name, const std::string& what,
                                    std::int64_t size, int tp) {
    const bool vocabulary = name == kEmbedding || name == kOutput;
    return fail(ErrorCode::InvalidArgument,
                name + ": " + what + " " + std::to_string(size) + " is not divisible by tp " +
                    std::to_string(tp),
                vocabulary ? "--make-vocab-size-divisible-by 128" : "");
}

// Appends rows [begin, begin + count) of source `i` to the shard. Extends the last piece if these
// rows follow it in the source.
void add_rows(Shard& shard, const Model& model, const NativeTensor& tensor, std::size_t i,
              std::int64_t begin, std::int64_t count) {
    Piece piece;
    piece.hf = model.number.at(tensor.sources[i].name);
    if (!shard.pieces.empty()) {
        Piece& last = shard.pieces.back();
        if (last.hf == piece.hf && last.begin[0] + last.size[0] == begin) {
            last.size[0] += count;
            shard.shape[0] += count;
            return;
        }
    }
    piece.add = tensor.add;
    piece.size = tensor.sources[i].shape;
    piece.begin.assign(piece.size.size(), 0);
    piece.stored_begin = piece.begin;
    piece.begin[0] = begin;
    piece.size[0] = count;
    piece.stored_begin[0] = shard.shape[0];
    shard.shape[0] += count;
    shard.pieces.push_back(std::move(piece));
}

Shard empty_shard(const NativeTensor& tensor) {
    Shard shard{tensor.shape, {}};
    shard.shape[0] = 0;
    return shard;
}

// Returns the rank's part of a tensor whose rows are cut into tp equal parts. Megatron 0.16 and
// later cut through key-value groups in this way if there are fewer groups than ranks; the ranks
// then gather the groups.
Shard rows_of_rank(Shard whole, int tp, int rank) {
    const std::int64_t rows = whole.shape[0] / tp;
    const std::int64_t first = rank * rows;
    Shard shard{whole.shape, {}};
    shard.shape[0] = rows;
    for (Piece& piece : whole.pieces) {
        const std::int64_t begin = std::max(piece.stored_begin[0], first);
        const std::int64_t end = std::min(piece.stored_begin[0] + piece.size[0], first + rows);
        if (begin >= end) continue;
        piece.begin[0] += begin - piece.stored_begin[0];
        piece.stored_begin[0] = begin - first;
        piece.size[0] = end - begin;
        shard.pieces.push_back(std::move(piece));
    }
    return shard;
}

// Returns true if each group can be split evenly over tp / groups ranks. `heads` counts all query
// heads.
bool cuts_groups(std::int64_t groups, std::int64_t heads, std::int64_t rows, int tp) {
    return tp % groups == 0 && heads % tp == 0 && rows % tp == 0;
}

// Returns the rank's shard of a Qkv tensor, which consists of whole key-value groups. Each group
// has its query heads, a key head and a value head.
Result<Shard> qkv_shard(const NativeTensor& tensor, const Model& model, int tp, int rank) {
    const std::int64_t head_dim = tensor.unit;
    const std::int64_t groups = tensor.sources[1].shape[0] / head_dim;
    const std::int64_t queries = tensor.sources[0].shape[0] / groups;
    if (groups % tp != 0) {
        const std::int64_t heads = tensor.sources[0].shape[0] / head_dim;
        if (!cuts_groups(groups, heads, tensor.shape[0], tp))
            return not_divisible(tensor.name, "num_query_groups", groups, tp);
        ROLL_TRY(Shard whole, qkv_shard(tensor, model, 1, 0));
        return rows_of_rank(std::move(whole), tp, rank);
    }
    Shard shard = empty_shard(tensor);
    for (std::int64_t group = rank * groups / tp; group < (rank + 1) * groups / tp; ++group) {
        add_rows(shard, model, tensor, 0, group * queries, queries);
        add_rows(shard, model, tensor, 1, group * head_dim, head_dim);
        add_rows(shard, model, tensor, 2, group * head_dim, head_dim);
    }
    return shard;
}

// Returns the rank's shard of a column-parallel tensor: the rank's part of the rows of each source,
// concatenated.
Result<Shard> column_shard(const NativeTensor& tensor, const Model& model, int tp, int rank) {
    Shard shard = empty_shard(tensor);
    for (std::size_t i = 0; i < tensor.sources.size(); ++i) {
        const std::int64_t rows = tensor.sources[i].shape[0];
        if (rows % tp != 0)
            return not_divisible(tensor.name, "rows of " + tensor.sources[i].name + ",", rows, tp);
        add_rows(shard, model, tensor, i, rank * rows / tp, rows / tp);
    }
    return shard;
}

// Returns the rank's rows of a tensor that is padded with zeros to `rows` rows. If the rank has
// only padding, the piece is empty.
Result<Shard> padded_shard(const NativeTensor& tensor, const Model& model, std::int64_t rows,
                           int tp, int rank) {
    if (rows % tp != 0 || rows < tensor.shape[0])
        return not_divisible(tensor.name, "padded_vocab_size", rows, tp);
    Shard shard = empty_shard(tensor);
    const std::int64_t begin = std::min(rank * rows / tp, tensor.shape[0]);
    const std::int64_t end = std::min((rank + 1) * rows / tp, tensor.shape[0]);
    add_rows(shard, model, tensor, 0, begin, end - begin);
    shard.shape[0] = rows / tp;
    return shard;
}

Result<Shard> row_shard(const NativeTensor& tensor, const Model& model, int tp, int rank) {
    const std::int64_t columns = tensor.shape[1];
    if (columns % tp != 0)
        return not_divisible(tensor.name, "columns of " + tensor.sources[0].name + ",", columns,
                             tp);
    Shard shard = empty_shard(tensor);
    add_rows(shard, model, tensor, 0, 0, tensor.shape[0]);
    shard.shape[1] = columns / tp;
    shard.pieces[0].begin[1] = rank * columns / tp;
    shard.pieces[0].size[1] = columns / tp;
    return shard;
}

// Returns the rank's shard of a Strands tensor: the rank's groups of every strand, ordered by group
// or by strand.
Result<Shard> strands_shard(const NativeTensor& tensor, const Model& model, int tp, int rank) {
    if (tensor.groups % tp != 0) return not_divisible(tensor.name, "groups", tensor.groups, tp);
    Shard shard = empty_shard(tensor);
    const std::int64_t first = rank * tensor.groups / tp;
    const std::int64_t last = (rank + 1) * tensor.groups / tp;
    const auto add = [&](const families::Strand& strand, std::int64_t group) {
        for (std::int64_t t = 0; t < strand.times; ++t)
            add_rows(shard, model, tensor, strand.of,
                     strand.begin + group * strand.block + t * strand.step, strand.rows);
    };
    if (tensor.by_group) {
        for (std::int64_t group = first; group < last; ++group)
            for (const families::Strand& strand : tensor.strands) add(strand, group);
    } else {
        for (const families::Strand& strand : tensor.strands)
            for (std::int64_t group = first; group < last; ++group) add(strand, group);
    }
    return shard;
}

// Returns a name like "…experts.local_experts.5.linear_fc1.weight" with the expert's number on its
// rank. If `grouped`, the name has the form "…experts.linear_fc1.weight1".
std::string with_expert(std::string name, std::int64_t global, std::int64_t local, bool grouped) {
    const std::string ending = kExperts + std::to_string(global) + ".";
    const std::size_t at = name.find(ending);
    ROLL_CHECK(at != std::string::npos);
    if (!grouped) return name.replace(at, ending.size(), kExperts + std::to_string(local) + ".");
    return name.replace(at, ending.size(), ".experts.") + std::to_string(local);
}

std::string with_layer(const NativeTensor& tensor, std::int64_t local) {
    const std::string global = ".layers." + std::to_string(*tensor.layer) + ".";
    const std::size_t at = tensor.name.find(global);
    ROLL_CHECK(at != std::string::npos);
    std::string name = tensor.name;
    return name.replace(at, global.size(), ".layers." + std::to_string(local) + ".");
}

struct Place {
    formats::McaRank rank;
    int chunk = 0;
};

class Builder {
  public:
    Builder(const Model& model, const formats::McaConfig& config, std::int64_t experts_per_rank)
        : model_(model),
          config_(config),
          experts_per_rank_(experts_per_rank) {}

    Result<void> add(const NativeTensor& tensor, const std::string& name, const Place& place) {
        if (tensor.expert && *tensor.expert / experts_per_rank_ != place.rank.ep) return {};
        const bool padded =
            config_.padded_vocab > 0 && (tensor.name == kEmbedding || tensor.name == kOutput);
        const int tp = tensor.expert ? config_.layout.expert_tp() : config_.layout.tp;
        const int rank = place.rank.tp % tp;
        ROLL_TRY(Shard shard, padded ? padded_shard(tensor, model_, config_.padded_vocab, tp, rank)
                                     : shard_of(tensor, model_, tp, rank));
        std::string spelling = config_.local_names ? local_spelling(name) : name;
        if (tensor.expert)
            spelling = with_expert(std::move(spelling), *tensor.expert,
                                   *tensor.expert % experts_per_rank_, config_.grouped_experts);
        stored_.push_back({formats::mca_rank_file(config_.layout, place.rank),
                           formats::mca_chunk_key(config_.layout, place.chunk), spelling,
                           std::move(shard.shape), std::move(shard.pieces), false});
        return {};
    }
    // Adds the tied output layer, a copy of the embedding in the last stage. The copy is optional
    // if the last stage is also the first, because only some writers store it then.
    Result<void> add_tied_output(const NativeTensor& embedding, const Place& place) {
        ROLL_TRY_VOID(add(embedding, kOutput, place));
        stored_.back().optional = config_.layout.pp == 1 && config_.layout.vpp == 1;
        return {};
    }
    std::vector<Stored> take() && { return std::move(stored_); }

  private:
    const Model& model_;
    const formats::McaConfig& config_;
    std::int64_t experts_per_rank_;
    std::vector<Stored> stored_;
};

Result<void> check_experts(std::int64_t experts, const formats::McaLayout& layout) {
    if (layout.tp % layout.expert_tp() != 0)
        return fail(ErrorCode::InvalidArgument,
                    "tp " + std::to_string(layout.tp) + " is not divisible by etp " +
                        std::to_string(layout.expert_tp()) +
                        ": one file per rank (tp, pp, ep) cannot store this layout",
                    "use --to torch_dist, which does not depend on ranks");
    if (experts == 0 && layout.ep > 1)
        return fail(ErrorCode::InvalidArgument,
                    "ep " + std::to_string(layout.ep) + " is given, but the model has no experts");
    if (experts % layout.ep != 0)
        return fail(ErrorCode::InvalidArgument, "num_moe_experts " + std::to_string(experts) +
                                                    " is not divisible by ep " +
                                                    std::to_string(layout.ep));
    return {};
}

Result<void> add_chunk(Builder& builder, const std::vector<NativeTensor>& native,
                       const layout::LayerRange& layers, const Place& place,
                       const formats::McaLayout& layout) {
    const bool first = place.rank.pp == 0 && place.chunk == 0;
    const bool last = place.rank.pp == layout.pp - 1 && place.chunk == layout.vpp - 1;
    const NativeTensor* embedding = nullptr;
    bool has_output = false;
    bool has_mtp = false;
    for (const NativeTensor& tensor : native) {
        if (tensor.name == kEmbedding) embedding = &tensor;
        if (tensor.name == kOutput) has_output = true;
        if (tensor.name.starts_with("mtp.")) has_mtp = true;
        if (tensor.stage == Stage::Layer) {
            if (*tensor.layer < layers.begin || *tensor.layer >= layers.end) continue;
            ROLL_TRY_VOID(
                builder.add(tensor, with_layer(tensor, *tensor.layer - layers.begin), place));
        } else if (tensor.stage == Stage::First ? first : last) {
            ROLL_TRY_VOID(builder.add(tensor, tensor.name, place));
        }
    }
    // The last stage also has the embedding, because multi-token prediction embeds tokens there.
    if (last && !first && has_mtp && embedding != nullptr)
        ROLL_TRY_VOID(builder.add(*embedding, kEmbedding, place));
    if (last && !has_output && embedding != nullptr)
        ROLL_TRY_VOID(builder.add_tied_output(*embedding, place));
    return {};
}

constexpr const char* kNewer = ".mtp_model_layer.";
constexpr const char* kOlder = ".transformer_layer.";

std::string respelled(std::string name, const std::string& from, const char* to) {
    const std::size_t at = name.find(from);
    return at == std::string::npos ? name : name.replace(at, from.size(), to);
}

// Returns "…experts.local_experts.5.linear_fc1.weight" or, if `grouped`,
// "…experts.linear_fc1.weight5".
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

Result<Shard> shard_of(const NativeTensor& tensor, const Model& model, int tp, int rank) {
    const bool split = tensor.split != Split::None;
    const int parts = split ? tp : 1;
    const int part = split ? rank : 0;
    if (tensor.split == Split::Row) return row_shard(tensor, model, parts, part);
    switch (tensor.operation) {
        case Operation::Qkv: return qkv_shard(tensor, model, parts, part);
        case Operation::Strands: return strands_shard(tensor, model, parts, part);
        case Operation::Copy:
        case Operation::GateUp: return column_shard(tensor, model, parts, part);
    }
    ROLL_CHECK(false);
}

Result<void> check_whole_groups(const formats::McaConfig& config) {
    const auto groups = config.native.value("num_query_groups", std::int64_t{0});
    if (groups % config.layout.tp == 0) return {};
    return not_divisible("a target that does not split key-value groups", "num_query_groups",
                         groups, config.layout.tp);
}

Result<std::vector<Stored>> mca_layout(const std::vector<NativeTensor>& native, const Model& model,
                                       const formats::McaConfig& config) {
    std::int64_t layers = 0;
    std::int64_t experts = 0;
    for (const NativeTensor& tensor : native) {
        if (tensor.layer) layers = std::max(layers, *tensor.layer + 1);
        if (tensor.expert) experts = std::max(experts, *tensor.expert + 1);
    }
    const formats::McaLayout& layout = config.layout;
    ROLL_TRY_VOID(check_experts(experts, layout));
    ROLL_TRY(const auto ranges, layout::split_layers(layers, layout));
    Builder builder(model, config, experts / layout.ep);
    Place place;
    for (place.rank.pp = 0; place.rank.pp < layout.pp; ++place.rank.pp)
        for (place.rank.ep = 0; place.rank.ep < layout.ep; ++place.rank.ep)
            for (place.rank.tp = 0; place.rank.tp < layout.tp; ++place.rank.tp)
                for (place.chunk = 0; place.chunk < layout.vpp; ++place.chunk) {
                    if (!formats::mca_has_rank(layout, place.rank)) continue;
                    ROLL_TRY_VOID(add_chunk(builder, native, ranges[place.rank.pp][place.chunk],
                                            place, layout));
                }
    return std::move(builder).take();
}

std::string local_spelling(const std::string& name) {
    for (const auto& [with, without] : kSpellings) {
        const std::string ending = with;
        if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size()) + without;
    }
    return name;
}

std::string older_spelling(const std::string& name) { return respelled(name, kNewer, kOlder); }

std::string newer_spelling(const std::string& name) { return respelled(name, kOlder, kNewer); }

std::string transformer_engine_spelling(const std::string& name) {
    for (const auto& [with, without] : kSpellings) {
        const std::string ending = without;
        if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size()) + with;
    }
    return name;
}

}  // namespace roll::convert
