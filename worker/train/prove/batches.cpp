#include "worker/train/prove/batches.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {
namespace {

// Starts a second and a third document in each row. The first token of a document is not a target.
void add_documents(Microbatch& batch, std::int64_t number) {
    const std::int64_t rows = batch.tokens_BT.size(0), length = batch.tokens_BT.size(1);
    const std::int64_t second = 1 + number % std::max<std::int64_t>(length / 2, 1),
                       third = second + (length - second) / 2;
    for (std::int64_t row = 0; row < rows; ++row) {
        batch.segments.push_back(row * length);
        for (const std::int64_t start : {second, third}) {
            const std::int64_t at = row * length + start;
            if (start >= length || batch.segments.back() == at) continue;
            batch.segments.push_back(at);
            batch.targets_BT[row][start - 1] = ops::kIgnored;
        }
    }
}

// Makes a micro-batch of answers: one row in which each answer is a segment. The answers have
// different lengths. If an answer has more than two targets, its first two targets count as its
// prompt.
Microbatch answers_of(const spec::TrainSpec& spec, std::int64_t vocab, std::int64_t number,
                      at::Generator& generator) {
    Microbatch batch;
    std::vector<at::Tensor> inputs, targets;
    std::int64_t start = 0;
    for (std::int64_t i = 0; i < spec.sequences_per_sample() * spec.micro_batch_size; ++i) {
        const std::int64_t length =
            spec.seq_length - (number + i) % std::max<std::int64_t>(spec.seq_length / 2, 1);
        const at::Tensor ids = at::randint(vocab, {length + 1}, generator).to(at::kLong);
        inputs.push_back(ids.narrow(0, 0, length));
        targets.push_back(ids.narrow(0, 1, length).clone());
        targets.back().slice(0, 0, std::min<std::int64_t>(2, length - 1)).fill_(ops::kIgnored);
        batch.segments.push_back(std::exchange(start, start + length));
        if (spec.preference.has_reference())
            batch.references.push_back(-5 - 0.5 * static_cast<double>((number + i) % 7));
    }
    batch.tokens_BT = at::cat(inputs).unsqueeze(0);
    batch.targets_BT = at::cat(targets).unsqueeze(0);
    return batch;
}

// Returns a micro-batch with one position, whose target does not count.
Microbatch no_answers() {
    return {at::zeros({1, 1}, at::kLong), at::full({1, 1}, ops::kIgnored, at::kLong), {0}};
}

// Makes a micro-batch of pairs or labelled answers.
Microbatch preference_of(const spec::TrainSpec& spec, std::int64_t vocab, std::int64_t number,
                         bool is_empty, at::Generator& generator) {
    const auto one = [&](std::int64_t of) {
        return is_empty ? no_answers() : answers_of(spec, vocab, of, generator);
    };
    Microbatch batch = one(number);
    for (std::int64_t i = 0;
         !spec.data.margin_field.empty() && !is_empty && i < spec.micro_batch_size; ++i)
        batch.margins.push_back(0.25 * static_cast<double>((number + i) % 5));
    if (!spec.preference.is_unpaired()) return batch;
    for (std::int64_t i = 0; !is_empty && i < spec.micro_batch_size; ++i)
        batch.labels.push_back((number + i) % 3 == 0 ? 0 : 1);
    if (spec.preference.estimates_kl()) batch.mismatched.push_back(one(number + 1));
    return batch;
}

}  // namespace

TeacherValues invented_teacher(std::int64_t rows, std::int64_t vocab, std::int64_t top_k,
                               at::Generator& generator) {
    const at::Tensor logits_MV = 2 * at::randn({rows, vocab}, generator, at::kDouble);
    const auto [values_MK, ids_MK] = logits_MV.log_softmax(1).topk(std::min(top_k, vocab), 1);
    return {ids_MK, values_MK};
}

std::vector<Microbatch> proof_batches(const spec::TrainSpec& spec, std::int64_t vocab, int step) {
    at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(step) + 1);
    const std::int64_t length = spec.seq_length;
    const std::int64_t count = spec.microbatches() * spec.parallel.dp;
    std::vector<Microbatch> batches;
    for (std::int64_t i = 0; i < count; ++i) {
        const bool is_empty = count > 2 && i + 1 == count;
        if (spec.objective == spec::Objective::Preference) {
            batches.push_back(preference_of(spec, vocab, i + step, is_empty, generator));
            continue;
        }
        const at::Tensor ids = at::randint(vocab, {spec.micro_batch_size, length + 1}, generator);
        const at::Tensor targets_BT = ids.narrow(1, 1, length).to(at::kLong).clone();
        targets_BT.slice(1, 0, (3 * i + step) % length).fill_(ops::kIgnored);
        if (is_empty) targets_BT.fill_(ops::kIgnored);
        Microbatch batch{ids.narrow(1, 0, length).to(at::kLong).contiguous(), targets_BT};
        if (spec.data.documents_apart) add_documents(batch, i);
        if (spec.loss.has_teacher())
            batch.teacher =
                invented_teacher(targets_BT.numel(), vocab, spec.teacher.top_k, generator);
        batches.push_back(std::move(batch));
    }
    std::int64_t rows = 0;  // number of rows of the step that come before this micro-batch
    for (Microbatch& batch : batches)
        batch.first_row = std::exchange(rows, rows + batch.tokens_BT.numel());
    return batches;
}

}  // namespace roll::train
