#include "worker/layout/shards.hpp"

#include <algorithm>
#include <numeric>

#include "common/check.hpp"
#include "worker/layout/stages.hpp"

namespace roll::layout {
namespace {

using families::NativeTensor;
using families::Operation;
using families::Split;
using families::Stage;

constexpr const char* kEmbedding = "embedding.word_embeddings.weight";
constexpr const char* kOutput = "output_layer.weight";
constexpr const char* kExperts = ".experts.local_experts.";

tl::unexpected<Error> not_divisible(const std::string& name, const std::string& what,
                                    std::int64_t size, int tp) {
    const bool vocabulary = name == kEmbedding || name == kOutput;
    return fail(ErrorCode::InvalidArgument,
                name + ": " + what + " " + std::to_string(size) + " is not divisible by tp " +
                    std::to_string(tp),
                vocabulary ? "--make-vocab-size-divisible-by 128" : "");
}

// Appends rows [begin, begin + count) of the source tensor sources[source] to the shard. If the
// shard's last box ends at row `begin` of the same source tensor, extends this box. Otherwise, adds
// a new box.
void add_rows(Shard& shard, const NativeTensor& tensor, std::size_t source, std::int64_t begin,
              std::int64_t count) {
    if (!shard.boxes.empty()) {
        Box& last = shard.boxes.back();
        if (last.source == source && last.begin[0] + last.size[0] == begin) {
            last.size[0] += count;
            shard.shape[0] += count;
            return;
        }
    }
    Box box;
    box.source = source;
    box.size = tensor.sources[source].shape;
    box.begin.assign(box.size.size(), 0);
    box.local = box.begin;
    box.begin[0] = begin;
    box.size[0] = count;
    box.local[0] = shard.shape[0];
    shard.shape[0] += count;
    shard.boxes.push_back(std::move(box));
}

Shard empty_shard(const NativeTensor& tensor) {
    Shard shard{tensor.shape, {}};
    shard.shape[0] = 0;
    return shard;
}

// Returns one rank's part of a tensor whose rows are cut into tp equal parts. Megatron 0.16 and
// later cut the query, key and value tensor in this way if there are fewer key-value groups than
// ranks. The ranks then gather the groups.
Shard rows_of_rank(Shard whole, int tp, int rank) {
    const std::int64_t rows = whole.shape[0] / tp;
    const std::int64_t first = rank * rows;
    Shard shard{whole.shape, {}};
    shard.shape[0] = rows;
    for (Box& box : whole.boxes) {
        const std::int64_t begin = std::max(box.local[0], first);
        const std::int64_t end = std::min(box.local[0] + box.size[0], first + rows);
        if (begin >= end) continue;
        box.begin[0] += begin - box.local[0];
        box.local[0] = begin - first;
        box.size[0] = end - begin;
        shard.boxes.push_back(std::move(box));
    }
    return shard;
}

// Returns true if the rows of a Qkv tensor can be cut into tp equal parts so that tp / groups ranks
// share each key-value group. `rows` is the tensor's number of rows, and `heads` is the number of
// query heads of all groups.
bool cuts_groups(std::int64_t groups, std::int64_t heads, std::int64_t rows, int tp) {
    return tp % groups == 0 && heads % tp == 0 && rows % tp == 0;
}

// Returns a rank's shard of a Qkv tensor. The shard usually consists of whole key-value groups. A
// group has its query heads, one key head and one value head.
Result<Shard> qkv_shard(const NativeTensor& tensor, int tp, int rank) {
    const std::int64_t head_dim = tensor.unit;
    const std::int64_t groups = tensor.sources[1].shape[0] / head_dim;
    const std::int64_t queries = tensor.sources[0].shape[0] / groups;
    if (groups % tp != 0) {
        const std::int64_t heads = tensor.sources[0].shape[0] / head_dim;
        if (!cuts_groups(groups, heads, tensor.shape[0], tp))
            return not_divisible(tensor.name, "num_query_groups", groups, tp);
        ROLL_TRY(Shard whole, qkv_shard(tensor, 1, 0));
        return rows_of_rank(std::move(whole), tp, rank);
    }
    Shard shard = empty_shard(tensor);
    for (std::int64_t group = rank * groups / tp; group < (rank + 1) * groups / tp; ++group) {
        add_rows(shard, tensor, 0, group * queries, queries);
        add_rows(shard, tensor, 1, group * head_dim, head_dim);
        add_rows(shard, tensor, 2, group * head_dim, head_dim);
    }
    return shard;
}

// Returns a rank's shard of a column-parallel tensor. The shard concatenates the rank's rows of
// each source.
Result<Shard> column_shard(const NativeTensor& tensor, int tp, int rank) {
    Shard shard = empty_shard(tensor);
    for (std::size_t i = 0; i < tensor.sources.size(); ++i) {
        const std::int64_t rows = tensor.sources[i].shape[0];
        if (rows % tp != 0)
            return not_divisible(tensor.name, "rows of " + tensor.sources[i].name + ",", rows, tp);
        add_rows(shard, tensor, i, rank * rows / tp, rows / tp);
    }
    return shard;
}

// Returns a rank's rows of a tensor that is padded with zeros to `rows` rows. If the rank has
// only padding, the box is empty.
Result<Shard> padded_shard(const NativeTensor& tensor, std::int64_t rows, int tp, int rank) {
    if (rows % tp != 0 || rows < tensor.shape[0])
        return not_divisible(tensor.name, "padded_vocab_size", rows, tp);
    Shard shard = empty_shard(tensor);
    const std::int64_t begin = std::min(rank * rows / tp, tensor.shape[0]);
    const std::int64_t end = std::min((rank + 1) * rows / tp, tensor.shape[0]);
    add_rows(shard, tensor, 0, begin, end - begin);
    shard.shape[0] = rows / tp;
    return shard;
}

Result<Shard> row_shard(const NativeTensor& tensor, int tp, int rank) {
    const std::int64_t columns = tensor.shape[1];
    if (columns % tp != 0)
        return not_divisible(tensor.name, "columns of " + tensor.sources[0].name + ",", columns,
                             tp);
    Shard shard = empty_shard(tensor);
    add_rows(shard, tensor, 0, 0, tensor.shape[0]);
    shard.shape[1] = columns / tp;
    shard.boxes[0].begin[1] = rank * columns / tp;
    shard.boxes[0].size[1] = columns / tp;
    return shard;
}

// Returns a rank's shard of a Strands tensor. The shard has the rank's groups of rows from every
// strand, ordered by group or by strand.
Result<Shard> strands_shard(const NativeTensor& tensor, int tp, int rank) {
    if (tensor.groups % tp != 0) return not_divisible(tensor.name, "groups", tensor.groups, tp);
    Shard shard = empty_shard(tensor);
    const std::int64_t first = rank * tensor.groups / tp;
    const std::int64_t last = (rank + 1) * tensor.groups / tp;
    const auto add = [&](const families::Strand& strand, std::int64_t group) {
        for (std::int64_t t = 0; t < strand.times; ++t)
            add_rows(shard, tensor, strand.of,
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

// Returns true if all elements of `inner` are elements of `outer`.
bool contains(const Box& outer, const Box& inner) {
    if (outer.source != inner.source) return false;
    for (std::size_t i = 0; i < outer.begin.size(); ++i)
        if (inner.begin[i] < outer.begin[i] ||
            inner.begin[i] + inner.size[i] > outer.begin[i] + outer.size[i])
            return false;
    return true;
}

std::string with_layer(const NativeTensor& tensor, std::int64_t local) {
    const std::string global = ".layers." + std::to_string(*tensor.layer) + ".";
    const std::size_t at = tensor.name.find(global);
    ROLL_CHECK(at != std::string::npos);
    std::string name = tensor.name;
    return name.replace(at, global.size(), ".layers." + std::to_string(local) + ".");
}

// Returns the tensor's name with the expert's index on its rank (`local`) instead of the expert's
// index in the layer (`global`).
std::string with_expert(std::string name, std::int64_t global, std::int64_t local) {
    const std::string part = kExperts + std::to_string(global) + ".";
    const std::size_t at = name.find(part);
    ROLL_CHECK(at != std::string::npos);
    return name.replace(at, part.size(), kExperts + std::to_string(local) + ".");
}

Result<void> check_experts(std::int64_t experts, const formats::McaLayout& layout) {
    if (layout.tp % layout.expert_tp() != 0)
        return fail(ErrorCode::InvalidArgument,
                    "tp " + std::to_string(layout.tp) + " is not divisible by etp " +
                        std::to_string(layout.expert_tp()) +
                        "; formats with one file per rank (tp, pp, ep) cannot store this layout",
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

// Returns true if this rank is the first of the ranks that hold the same part of the tensor.
bool is_first(const NativeTensor& tensor, const formats::McaLayout& layout,
              const formats::McaRank& rank) {
    const int etp = layout.expert_tp();
    const int parts = tensor.expert ? etp : layout.tp;
    if (tensor.split == Split::None && rank.tp % parts != 0) return false;
    // Let t = tp / etp. A rank exists only if ep and t are equal modulo `common` (mca_has_rank()).
    // A tensor outside the experts is on all ranks with the same tp; the first of them has the
    // smallest ep, which is t % common. A tensor of an expert is on all ranks with the same ep; the
    // first of them has the smallest t, which is ep % common.
    const int common = std::gcd(layout.tp / etp, layout.ep);
    return tensor.expert ? rank.tp / etp == rank.ep % common : rank.ep == rank.tp / etp % common;
}

class Holder {
  public:
    Holder(const std::vector<NativeTensor>& native, const formats::McaLayout& layout,
           std::int64_t padded_vocab, const formats::McaRank& rank)
        : native_(native),
          layout_(layout),
          padded_vocab_(padded_vocab),
          rank_(rank) {}

    Result<std::vector<Held>> run() && {
        std::int64_t layers = 0;
        std::int64_t experts = 0;
        for (const NativeTensor& tensor : native_) {
            if (tensor.layer) layers = std::max(layers, *tensor.layer + 1);
            if (tensor.expert) experts = std::max(experts, *tensor.expert + 1);
        }
        ROLL_TRY_VOID(check_experts(experts, layout_));
        experts_ = experts / layout_.ep;
        ROLL_TRY(const auto ranges, split_layers(layers, layout_));
        for (int chunk = 0; chunk < layout_.vpp; ++chunk)
            ROLL_TRY_VOID(add_chunk(
                chunk,
                ranges[static_cast<std::size_t>(rank_.pp)][static_cast<std::size_t>(chunk)]));
        return std::move(held_);
    }

  private:
    Result<void> add_chunk(int chunk, const LayerRange& layers) {
        const bool first = rank_.pp == 0 && chunk == 0;
        const bool last = rank_.pp == layout_.pp - 1 && chunk == layout_.vpp - 1;
        std::optional<std::size_t> embedding;
        bool has_output = false;
        bool has_mtp = false;
        for (std::size_t i = 0; i < native_.size(); ++i) {
            const NativeTensor& tensor = native_[i];
            if (tensor.name == kEmbedding) embedding = i;
            if (tensor.name == kOutput || tensor.name == families::kScore) has_output = true;
            if (tensor.name.starts_with("mtp.")) has_mtp = true;
            if (tensor.stage == Stage::Layer) {
                if (*tensor.layer < layers.begin || *tensor.layer >= layers.end) continue;
                ROLL_TRY_VOID(add(i, with_layer(tensor, *tensor.layer - layers.begin), chunk));
            } else if (tensor.stage == Stage::First ? first : last) {
                ROLL_TRY_VOID(add(i, tensor.name, chunk));
            }
        }
        // The last stage also has the embedding, because the multi-token prediction layers on this
        // stage embed tokens.
        if (last && !first && has_mtp && embedding) {
            ROLL_TRY_VOID(add(*embedding, kEmbedding, chunk));
            held_.back().owner = false;
        }
        if (last && !has_output && embedding) {
            ROLL_TRY_VOID(add(*embedding, kOutput, chunk));
            held_.back().owner = false;
            held_.back().tied_output = true;
        }
        return {};
    }

    Result<void> add(std::size_t index, std::string name, int chunk) {
        const NativeTensor& tensor = native_[index];
        Held held;
        if (tensor.expert) {
            if (*tensor.expert / experts_ != rank_.ep) return {};
            held.expert = *tensor.expert % experts_;
            name = with_expert(std::move(name), *tensor.expert, *held.expert);
        }
        const bool padded =
            padded_vocab_ > 0 && (tensor.name == kEmbedding || tensor.name == kOutput);
        const int tp = tensor.expert ? layout_.expert_tp() : layout_.tp;
        const int rank = rank_.tp % tp;
        ROLL_TRY(held.shard, padded ? padded_shard(tensor, padded_vocab_, tp, rank)
                                    : shard_of(tensor, tp, rank));
        held.tensor = index;
        held.chunk = chunk;
        held.name = std::move(name);
        held.owner = is_first(tensor, layout_, rank_);
        held_.push_back(std::move(held));
        return {};
    }

    const std::vector<NativeTensor>& native_;
    const formats::McaLayout& layout_;
    std::int64_t padded_vocab_;
    const formats::McaRank& rank_;
    std::int64_t experts_ = 0;  // number of experts on each rank
    std::vector<Held> held_;
};

}  // namespace

Result<Shard> shard_of(const NativeTensor& tensor, int tp, int rank) {
    const bool split = tensor.split != Split::None;
    const int parts = split ? tp : 1;
    const int part = split ? rank : 0;
    if (tensor.split == Split::Row) return row_shard(tensor, parts, part);
    switch (tensor.operation) {
        case Operation::Qkv: return qkv_shard(tensor, parts, part);
        case Operation::Strands: return strands_shard(tensor, parts, part);
        case Operation::Copy:
        case Operation::GateUp: return column_shard(tensor, parts, part);
    }
    ROLL_CHECK(false);
}

Result<Slice> slice_of(const NativeTensor& tensor, int tp, int rank, std::int64_t padded_rows) {
    ROLL_TRY(const Shard whole, shard_of(tensor, 1, 0));
    ROLL_TRY(Shard shard, padded_rows > 0 ? padded_shard(tensor, padded_rows, tp, rank)
                                          : shard_of(tensor, tp, rank));
    Slice slice{std::move(shard.shape), {}};
    for (const Box& box : shard.boxes) {
        const auto around = std::find_if(whole.boxes.begin(), whole.boxes.end(),
                                         [&](const Box& outer) { return contains(outer, box); });
        ROLL_CHECK(around != whole.boxes.end());
        Part part{around->local, box.size, box.local};
        for (std::size_t i = 0; i < part.whole.size(); ++i)
            part.whole[i] += box.begin[i] - around->begin[i];
        slice.parts.push_back(std::move(part));
    }
    return slice;
}

Result<std::vector<Held>> held_by(const std::vector<NativeTensor>& native,
                                  const formats::McaLayout& layout, std::int64_t padded_vocab,
                                  const formats::McaRank& rank) {
    return Holder(native, layout, padded_vocab, rank).run();
}

}  // namespace roll::layout
