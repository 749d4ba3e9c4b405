#include "worker/train/data/pair_batches.hpp"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "worker/train/data/token_check.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {
namespace {

struct Rows {
    std::vector<std::int64_t> inputs, targets;
};

// Appends an answer: the inputs are all its tokens except the last, the targets all except the
// first. Targets in the prompt are ignored.
void append(const data::Tokens& answer, std::int64_t vocab, Rows& rows) {
    for (std::size_t i = 0; i + 1 < answer.size(); ++i) {
        const std::int64_t token = answer[i], next = answer[i + 1];
        rows.inputs.push_back(checked_token(token < 0 ? data::only_read(token) : token, vocab));
        rows.targets.push_back(next < 0 ? ops::kIgnored : checked_token(next, vocab));
    }
}

at::Tensor row_of(const std::vector<std::int64_t>& values) {
    return at::tensor(values, at::kLong).unsqueeze(0);
}

}  // namespace

Microbatch pair_batch(std::span<const data::Window> pairs, const PairRows& rules) {
    const std::size_t most = static_cast<std::size_t>(rules.seq_length) + 1;
    Rows rows;
    Microbatch batch;
    for (const data::Window& window : pairs) {
        const data::Tokens tokens = window.tokens();
        const std::size_t second = window.document_starts().front();
        for (const data::Tokens& answer : {tokens.first(second), tokens.subspan(second)}) {
            batch.segments.push_back(std::ssize(rows.inputs));
            append(answer.first(std::min(answer.size(), most)), rules.vocab, rows);
        }
        if (rules.references == nullptr) continue;
        for (const double log_prob : rules.references->of(window))
            batch.references.push_back(log_prob);
    }
    if (rows.inputs.empty()) {
        rows = {{0}, {ops::kIgnored}};
        batch.segments = {0};
    }
    batch.tokens_BT = row_of(rows.inputs);
    batch.targets_BT = row_of(rows.targets);
    return batch;
}

}  // namespace roll::train
