#include "worker/train/pipeline/executor.hpp"

#include <ATen/ATen.h>

namespace roll::train {
namespace {

// Sends and receives between a stage and its two neighbours. Stage s is on rank s mod pp.
struct Link {
    Communicator& pp;
    int stage;
    at::TensorOptions options;

    at::Tensor receive(int from, at::IntArrayRef sizes, Tag tag) const {
        const at::Tensor tensor = at::empty(sizes, options);
        pp.wait(pp.receive(tensor, from % pp.size(), tag));
        return tensor;
    }
    void send(const at::Tensor& tensor, int to, Tag tag) const {
        pp.send(tensor, to % pp.size(), tag);
    }
};

Link link_of(Chunk& chunk, int index, Communicator& pp) {
    return {pp, index * pp.size() + pp.rank(), chunk.parameters().flat_weight.options()};
}

// Returns Now if no stage waits for the result of the input half and the weight half is the next
// op. One pass then computes both halves.
WeightHalves when_weights(std::span<const plan::Op> ops, std::size_t i, const ChunkSpec& part) {
    const plan::Op weight{plan::OpKind::BackwardWeight, ops[i].chunk, ops[i].microbatch};
    const bool next = i + 1 < ops.size() && ops[i + 1] == weight;
    return part.pre && next ? WeightHalves::Now : WeightHalves::Later;
}

}  // namespace

at::Tensor execute(std::span<const plan::Op> ops, std::span<RankChunk> chunks,
                   const ScaledBatch& batch, Communicator& pp, StepTrace& trace) {
    const at::Tensor loss_K = at::zeros({std::ssize(batch.microbatches)}, at::kDouble);
    for (std::size_t i = 0; i < ops.size(); ++i) {
        const plan::Op& op = ops[i];
        const auto& [chunk, ready] = chunks[op.chunk];
        const ChunkSpec& part = chunk.part();
        const Link link = link_of(chunk, op.chunk, pp);
        const Microbatch& data = batch.microbatches[op.microbatch];
        const std::int64_t sizes_MC[] = {data.tokens_BT.numel(), chunk.config().hidden};
        // `layer` is the first layer above the boundary that the message crosses
        const auto tag = [&](Site site, std::int64_t layer) {
            return Tag{site, static_cast<int>(layer), op.microbatch};
        };
        at::Tensor in, out;
        switch (op.kind) {
            case plan::OpKind::Forward:
                if (!part.pre)
                    in = link.receive(link.stage - 1, sizes_MC,
                                      tag(Site::Activation, part.layer_begin));
                out = batch.scales.empty() ? chunk.evaluate(data, in)
                                           : chunk.forward(op.microbatch, data, in,
                                                           batch.scales[op.microbatch], ready);
                if (!part.post)
                    link.send(out, link.stage + 1, tag(Site::Activation, part.layer_end));
                else
                    loss_K[op.microbatch] = out;
                break;
            case plan::OpKind::BackwardInput:
                if (!part.post)
                    in =
                        link.receive(link.stage + 1, sizes_MC, tag(Site::Gradient, part.layer_end));
                out = chunk.backward_input(op.microbatch, in, when_weights(ops, i, part), ready);
                if (!part.pre)
                    link.send(out, link.stage - 1, tag(Site::Gradient, part.layer_begin));
                break;
            case plan::OpKind::BackwardWeight: chunk.backward_weight(op.microbatch, ready); break;
        }
        trace.push_back({.kind = TraceEvent::Kind::OpDone, .op = op});
    }
    return loss_K;
}

}  // namespace roll::train
