#include "worker/train/save/owned_rows.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>

#include <ATen/ATen.h>

#include "worker/train/optim/rules.hpp"

namespace roll::train {
namespace {

constexpr const char* kEmbedding = "embedding.word_embeddings.weight";

// Returns true if each rank of the parameter has the whole state (StateForm).
bool is_whole(const spec::OptimizerSpec& options, const ParameterSpec& spec,
              std::string_view ending) {
    return std::ranges::any_of(states_of(options, spec), [&](const StateForm& form) {
        return form.ending == ending && !form.whole.empty();
    });
}

std::vector<const StateTensors*> kinds_of(Optimizer& optimizer, const ParameterSpec& spec,
                                          std::size_t index) {
    std::vector<const StateTensors*> kinds;
    for (const StateTensors& kind : optimizer.state().kinds)
        if (kind.of[index].defined() && !is_whole(optimizer.options(), spec, kind.ending))
            kinds.push_back(&kind);
    return kinds;
}

std::int64_t row_bytes(const Parameters& p, const Owned& one, bool with_weights) {
    const ParameterSpec& spec = p.specs[one.index];
    auto element = static_cast<std::int64_t>(with_weights ? c10::elementSize(main_type(p)) : 0);
    for (const StateTensors* const kind : one.kinds)
        element += static_cast<std::int64_t>(kind->flat.element_size());
    return element * c10::multiply_integers(spec.sizes) / spec.sizes[0];
}

// Returns the rows that this rank and its counterparts together write. The counterparts are the
// ranks of the other replicas that hold the same parameters (same tp and pp rank). If several ranks
// of a replica hold copies of a parameter, only one copy is written.
std::vector<Owned> rows_of_position(TrainStep& step, bool with_weights) {
    const Communicator* tp = step.groups().tp;
    std::vector<Owned> owned;
    for (std::size_t chunk = 0; chunk < step.chunks().size(); ++chunk) {
        const Parameters& p = step.chunks()[chunk].parameters();
        for (std::size_t i = 0; i < p.specs.size(); ++i) {
            const ParameterSpec& spec = p.specs[i];
            const bool is_copy = spec.parts.empty() && tp != nullptr && tp->rank() > 0;
            if (spec.frozen || is_copy || is_tied_copy(step.chunks()[chunk].part(), spec)) continue;
            Owned one{
                chunk, i, {0, unpadded_rows(spec)}, kinds_of(step.optimizers()[chunk], spec, i)};
            one.row_bytes = row_bytes(p, one, with_weights);
            if (one.row_bytes > 0) owned.push_back(std::move(one));
        }
    }
    return owned;
}

std::int64_t bytes_of_rows(const std::vector<Owned>& owned) {
    std::int64_t bytes = 0;
    for (const Owned& one : owned) bytes += one.rows.count * one.row_bytes;
    return bytes;
}

// Limits `owned` to this rank's own rows. Used if ranks share optimizer state.
void keep_own_rows(TrainStep& step, std::vector<Owned>& owned) {
    for (Owned& one : owned) {
        const layout::Rows& own = step.chunks()[one.chunk].parameters().own[one.index];
        const std::int64_t end = std::min(own.begin + own.count, one.rows.count);
        one.rows = {own.begin, std::max<std::int64_t>(end - own.begin, 0)};
    }
}

// Limits `owned` to this rank's share of the rows. Used if every replica has all states.
void keep_share(TrainStep& step, std::vector<Owned>& owned,
                const std::vector<std::int64_t>& fixed) {
    const std::vector<std::int64_t> shares = balanced_shares(fixed, bytes_of_rows(owned));
    const auto self = shares.begin() + step.groups().dp.rank();
    const std::int64_t begin = std::accumulate(shares.begin(), self, std::int64_t{0});
    const std::int64_t end = begin + *self;
    std::int64_t before = 0;  // number of bytes of the parameters before the current one
    for (Owned& one : owned) {
        const std::int64_t row = one.row_bytes;
        const auto row_at = [&](std::int64_t byte) {
            return std::clamp((byte - before + row - 1) / row, std::int64_t{0}, one.rows.count);
        };
        const std::int64_t size = one.rows.count * row, first = row_at(begin);
        one.rows = {first, row_at(end) - first};
        before += size;
    }
}

}  // namespace

std::vector<Owned> owned_rows(TrainStep& step, const std::vector<std::int64_t>& fixed,
                              bool with_weights) {
    std::vector<Owned> owned = rows_of_position(step, with_weights);
    if (step.chunks().front().parameters().is_shared)
        keep_own_rows(step, owned);
    else
        keep_share(step, owned, fixed);
    std::erase_if(owned, [](const Owned& one) { return one.rows.count == 0; });
    return owned;
}

std::vector<std::int64_t> owned_bytes(TrainStep& step, const std::vector<std::int64_t>& fixed) {
    const std::vector<Owned> owned = rows_of_position(step, false);
    if (!step.chunks().front().parameters().is_shared)
        return balanced_shares(fixed, bytes_of_rows(owned));
    const int replicas = step.groups().dp.size();
    std::vector<std::int64_t> bytes(static_cast<std::size_t>(replicas));
    for (const Owned& one : owned) {
        const ParameterSpec& spec = step.chunks()[one.chunk].parameters().specs[one.index];
        for (int replica = 0; replica < replicas; ++replica) {
            const layout::Rows own = layout::own_rows(spec.sizes[0], replicas, replica);
            const std::int64_t end = std::min(own.begin + own.count, one.rows.count);
            bytes[static_cast<std::size_t>(replica)] +=
                std::max<std::int64_t>(end - own.begin, 0) * one.row_bytes;
        }
    }
    return bytes;
}

std::vector<std::int64_t> balanced_shares(const std::vector<std::int64_t>& fixed,
                                          std::int64_t shared) {
    std::vector<std::int64_t> order = fixed;
    std::ranges::sort(order);
    // Give the shared bytes to the ranks with the fewest fixed bytes, so that all ranks that get
    // shared bytes end up with the same total, `level`.
    std::int64_t sum = shared, level = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
        sum += order[i];
        level = sum / static_cast<std::int64_t>(i + 1);
        if (i + 1 == order.size() || level <= order[i + 1]) break;
    }
    std::vector<std::int64_t> shares;
    std::int64_t rest = shared;
    for (const std::int64_t bytes : fixed) {
        shares.push_back(std::min(rest, std::max<std::int64_t>(level - bytes, 0)));
        rest -= shares.back();
    }
    const auto least = std::ranges::min_element(fixed) - fixed.begin();
    // the remainder of the division goes to this rank
    shares[static_cast<std::size_t>(least)] += rest;
    return shares;
}

bool is_tied_copy(const ChunkSpec& part, const ParameterSpec& spec) {
    return spec.name == kEmbedding && part.post && !part.pre;
}

tensor::DType stored_dtype(const StateTensors& kind) {
    const at::ScalarType type = kind.flat.scalar_type();
    return type == at::kByte       ? tensor::DType::U8
           : type == at::kBFloat16 ? tensor::DType::BF16
           : type == at::kDouble   ? tensor::DType::F64
                                   : tensor::DType::F32;
}

}  // namespace roll::train
