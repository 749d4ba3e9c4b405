#include "worker/train/prove/batches.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {
namespace {

// Starts a second and a third document in each row. The first token of a document is not predicted.
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

}  // namespace

std::vector<Microbatch> proof_batches(const spec::TrainSpec& spec, std::int64_t vocab, int step) {
    at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(step) + 1);
    const std::int64_t length = spec.seq_length;
    const std::int64_t count = spec.microbatches() * spec.parallel.dp;
    std::vector<Microbatch> batches;
    for (std::int64_t i = 0; i < count; ++i) {
        const at::Tensor ids = at::randint(vocab, {spec.micro_batch_size, length + 1}, generator);
        const at::Tensor targets_BT = ids.narrow(1, 1, length).to(at::kLong).clone();
        targets_BT.slice(1, 0, (3 * i + step) % length).fill_(ops::kIgnored);
        if (count > 2 && i + 1 == count) targets_BT.fill_(ops::kIgnored);
        Microbatch batch{ids.narrow(1, 0, length).to(at::kLong).contiguous(), targets_BT};
        if (spec.data.documents_apart) add_documents(batch, i);
        batches.push_back(std::move(batch));
    }
    return batches;
}

}  // namespace roll::train
