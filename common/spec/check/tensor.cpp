#include "common/spec/check/tensor.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace roll::spec {
namespace {

// Returns all values of tp that divide all known sizes, beginning with 1.
std::vector<std::int64_t> allowed(const TensorSizes& sizes) {
    const std::int64_t common =
        std::gcd(std::gcd(sizes.heads.value_or(0), sizes.kv_heads.value_or(0)),
                 sizes.intermediate.value_or(0));
    std::vector<std::int64_t> values;
    constexpr std::size_t kShown = 8;
    for (std::int64_t tp = 1; tp <= common && values.size() < kShown; ++tp)
        if (common % tp == 0) values.push_back(tp);
    return values;
}

}  // namespace

TensorSizes tensor_sizes(const ModelConfig& model) {
    return {model.heads, model.kv_heads, model.intermediate};
}

std::vector<Problem> tensor_problems(const ParallelSpec& p, const TensorSizes& sizes) {
    std::vector<Problem> problems;
    if (p.tp <= 1) {
        if (p.sequence)
            problems.push_back({"parallel.sequence",
                                "is true, but parallel.tp is 1; allowed: false, or set parallel.tp "
                                "to 2 or more"});
        return problems;
    }
    const auto refuse = [&](std::string message) {
        problems.push_back({"parallel.tp", std::move(message)});
    };
    const auto divides = [&](const char* key, std::optional<std::int64_t> size) {
        if (!size || *size % p.tp == 0) return;
        refuse(fmt::format("is {}, which does not divide model.{} {}; allowed with this model: {}",
                           p.tp, key, *size, fmt::join(allowed(sizes), ", ")));
    };
    divides("num_attention_heads", sizes.heads);
    const bool shares_heads =
        sizes.kv_heads && p.tp > *sizes.kv_heads && p.tp % *sizes.kv_heads == 0;
    if (shares_heads)
        refuse(fmt::format(
            "is {}, a multiple of model.num_key_value_heads {}: ranks that share a key-value head "
            "are not supported yet; allowed with this model: {}",
            p.tp, *sizes.kv_heads, fmt::join(allowed(sizes), ", ")));
    else
        divides("num_key_value_heads", sizes.kv_heads);
    divides("intermediate_size", sizes.intermediate);
    return problems;
}

std::string tensor_span_warning(const ParallelSpec& p, int nodes, const std::string& sent) {
    const int ranks = p.replicas() * p.tp * p.pp;
    const int per_node = std::max(ranks / std::max(nodes, 1), 1);
    if (per_node % p.tp == 0) return {};
    int spanned = 1;
    for (int first = 0; first < ranks; first += p.tp)
        spanned = std::max(spanned, (first + p.tp - 1) / per_node - first / per_node + 1);
    std::vector<int> local;
    for (int tp = 1; tp < p.tp; ++tp)
        if (p.tp % tp == 0 && per_node % tp == 0) local.push_back(tp);
    const std::string bytes =
        sent.empty() ? "the group's sums" : fmt::format("{} per rank and step", sent);
    return fmt::format(
        "parallel.tp is {}, but a node has {} of the job's ranks: a tensor-parallel group is on {} "
        "nodes, and sends {} over the network; to avoid this cost: tp {}, or {} ranks on a "
        "node",
        p.tp, per_node, spanned, bytes, fmt::join(local, ", "), p.tp);
}

}  // namespace roll::spec
