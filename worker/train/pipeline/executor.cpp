#include "worker/train/pipeline/executor.hpp"

#include <ATen/ATen.h>

namespace roll::train {
namespace {

// A stage's two neighbours. Stage s lives on rank s mod pp.
struct Link {
    Communicator& pp;
    int stage;
    at::TensorOptions options;

    at::Tensor receive(int from, Channel channel, at::IntArrayRef sizes) const {
        at::Tensor tensor = at::empty(sizes, options);
        pp.recv(tensor, from % pp.size(), channel);
        return tensor;
    }
    void send(const at::Tensor& tensor, int to, Channel channel) const {
        pp.send(tensor, to % pp.size(), channel);
    }
};

}  // namespace

at::Tensor execute(std::span<const plan::Op> ops, std::span<RankChunk> chunks,
                   const ScaledBatch& batch, Communicator& pp) {
    at::Tensor loss = at::zeros({}, at::kDouble);
    for (const plan::Op& op : ops) {
        auto& [chunk, buckets] = chunks[op.chunk];
        const GradReady ready = [&buckets](int parameter) { buckets.ready(parameter); };
        const at::Tensor& flat = chunk.parameters().flat_weight;
        const Link link{pp, op.chunk * pp.size() + pp.rank(), flat.options()};
        const Microbatch& data = batch.microbatches[op.microbatch];
        const std::int64_t sizes_MC[] = {data.tokens_BT.numel(), chunk.hidden()};
        at::Tensor in, out;
        switch (op.kind) {
            case plan::OpKind::Forward:
                if (!chunk.part().pre)
                    in = link.receive(link.stage - 1, Channel::Activation, sizes_MC);
                out = chunk.forward(op.microbatch, data, in, batch.scales[op.microbatch]);
                if (chunk.part().post)
                    loss.add_(out);
                else
                    link.send(out, link.stage + 1, Channel::Activation);
                break;
            case plan::OpKind::BackwardInput:
                if (!chunk.part().post)
                    in = link.receive(link.stage + 1, Channel::Gradient, sizes_MC);
                out = chunk.backward_input(op.microbatch, in, ready);
                if (!chunk.part().pre) link.send(out, link.stage - 1, Channel::Gradient);
                break;
            case plan::OpKind::BackwardWeight: chunk.backward_weight(op.microbatch, ready); break;
        }
    }
    return loss;
}

}  // namespace roll::train
