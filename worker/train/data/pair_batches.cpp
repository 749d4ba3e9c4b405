#include "worker/train/data/pair_batches.hpp"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "worker/train/data/text_options.hpp"
#include "worker/train/data/token_check.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {
namespace {

struct Rows {
    std::vector<std::int64_t> inputs, targets;
};

// Appends an answer with its prompt. The inputs are all tokens except the last; the targets are all
// tokens except the first. Targets in the prompt are ignored.
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

// Makes the tensors of the added rows. If no row was added, makes the tensors of one row whose
// target is ignored.
void finish(Rows rows, Microbatch& batch) {
    if (rows.inputs.empty()) {
        rows = {{0}, {ops::kIgnored}};
        batch.segments = {0};
    }
    batch.tokens_BT = row_of(rows.inputs);
    batch.targets_BT = row_of(rows.targets);
}

// Appends all tokens that a reward model reads.
void append_scored(const data::Tokens& answer, const PairRows& rules, Rows& rows) {
    std::size_t size = answer.size();
    while (size > 1 && answer[size - 1] == rules.pad) --size;
    append(answer.first(size), rules.vocab, rows);
    const std::int64_t last = answer[size - 1];
    rows.inputs.push_back(checked_token(last < 0 ? data::only_read(last) : last, rules.vocab));
    rows.targets.push_back(ops::kIgnored);
}

// Adds an answer with its prompt as one segment.
void add_segment(const data::Tokens& answer, const PairRows& rules, Rows& rows, Microbatch& batch) {
    const data::Piece kept = data::kept_piece(answer, rules.rows);
    const data::Tokens tokens = answer.subspan(kept.begin, kept.size);
    batch.segments.push_back(std::ssize(rows.inputs));
    if (rules.rows.scores) return append_scored(tokens, rules, rows);
    append(tokens, rules.vocab, rows);
}

// Adds one segment with the prompt of `document` and the answer of `other`.
void add_mismatched(const data::Tokens& document, const data::Tokens& other, const PairRows& rules,
                    Rows& rows, Microbatch& batch) {
    std::vector<std::int32_t> tokens;
    for (std::size_t i = 0; i < data::prompt_size(document); ++i)
        tokens.push_back(static_cast<std::int32_t>(document[i]));
    for (std::size_t i = data::prompt_size(other); i < other.size(); ++i)
        tokens.push_back(static_cast<std::int32_t>(other[i]));
    add_segment({std::as_bytes(std::span(tokens)).data(), tokens.size(), data::TokenType::Int32},
                rules, rows, batch);
}

Microbatch labelled_batch(std::span<const data::Window> windows, const PairRows& rules) {
    Rows rows, mismatched_rows;
    Microbatch batch, mismatched;
    for (const data::Window& window : windows) {
        const data::Tokens document = window.tokens().first(window.document_starts().front());
        add_segment(document, rules, rows, batch);
        batch.labels.push_back(data::label_of(window).chosen ? 1 : 0);
        if (rules.mismatched)
            add_mismatched(document, data::mismatched_document(window), rules, mismatched_rows,
                           mismatched);
        if (rules.references == nullptr) continue;
        const auto& [own, other] = rules.references->of(window);
        batch.references.push_back(own);
        mismatched.references.push_back(other);
    }
    finish(std::move(rows), batch);
    if (!rules.mismatched) return batch;
    finish(std::move(mismatched_rows), mismatched);
    batch.mismatched.push_back(std::move(mismatched));
    return batch;
}

}  // namespace

PairRows pair_rows(const spec::TrainSpec& spec, std::int64_t vocab,
                   const PairReferences* references, std::int64_t pad) {
    return {.rows = row_rules(spec),
            .vocab = vocab,
            .references = references,
            .labels = spec.data.labels,
            .mismatched = spec.data.labels && spec.preference.estimates_kl(),
            .pad = pad};
}

Microbatch answer_batch(std::span<const data::Tokens> answers, const PairRows& rules) {
    Rows rows;
    Microbatch batch;
    for (const data::Tokens& answer : answers) add_segment(answer, rules, rows, batch);
    finish(std::move(rows), batch);
    return batch;
}

Microbatch pair_batch(std::span<const data::Window> pairs, const PairRows& rules) {
    if (rules.labels) return labelled_batch(pairs, rules);
    Rows rows;
    Microbatch batch;
    for (const data::Window& window : pairs) {
        data::Tokens tokens = window.tokens();
        if (rules.rows.margins) {
            const std::size_t size = tokens.size() - data::kMarginTokens;
            batch.margins.push_back(data::margin_of(tokens[size], tokens[size + 1]));
            tokens = tokens.first(size);
        }
        const std::size_t second = window.document_starts().front();
        for (const data::Tokens& answer : {tokens.first(second), tokens.subspan(second)})
            add_segment(answer, rules, rows, batch);
        if (rules.references == nullptr) continue;
        for (const double log_prob : rules.references->of(window))
            batch.references.push_back(log_prob);
    }
    finish(std::move(rows), batch);
    return batch;
}

}  // namespace roll::train
