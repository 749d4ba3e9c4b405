#include "worker/train/pipeline/executor.hpp"

#include <deque>
#include <map>

#include <ATen/ATen.h>

#include "common/check.hpp"

namespace roll::train {
namespace {

// Tensors that one stage has passed to another stage on the same rank. The key is the receiving
// stage and the Site of the transfer.
using Handed = std::map<std::pair<int, Site>, std::deque<at::Tensor>>;

// Exchanges tensors between a stage and its two neighbours. A neighbour on the same rank gets the
// tensor itself, without a message.
struct Link {
    Communicator& pp;
    plan::Placement placing;
    int stage;
    at::TensorOptions options;
    Handed& handed;

    at::Tensor receive(int from, at::IntArrayRef sizes, Tag tag) const {
        const int peer = plan::home_of(placing, pp.size(), from).rank;
        if (peer == pp.rank()) {
            std::deque<at::Tensor>& waiting = handed[{stage, tag.site}];
            ROLL_CHECK(!waiting.empty());
            at::Tensor tensor = std::move(waiting.front());
            waiting.pop_front();
            return tensor;
        }
        const at::Tensor tensor = at::empty(sizes, options);
        pp.wait(pp.receive(tensor, peer, tag));
        return tensor;
    }
    void send(const at::Tensor& tensor, int to, Tag tag) const {
        const int peer = plan::home_of(placing, pp.size(), to).rank;
        if (peer == pp.rank())
            handed[{to, tag.site}].push_back(tensor);
        else
            pp.send(tensor, peer, tag);
    }
};

WeightHalves when_weights(std::span<const plan::Op> ops, std::size_t i, const ChunkSpec& part) {
    return plan::halves_together(ops, i, part.sends_gradient()) ? WeightHalves::Now
                                                                : WeightHalves::Later;
}

// Runs the forward pass of a micro-batch on one chunk.
at::Tensor forward(Chunk& chunk, int microbatch, const RuledBatch& batch, const at::Tensor& in,
                   const GradReady& ready) {
    const Microbatch& data = batch.microbatches[microbatch];
    if (!batch.rules.empty())
        return chunk.forward(microbatch, data, in, batch.rules[microbatch], ready);
    switch (batch.returned) {
        case Returned::Sequences: return chunk.log_probs(data, in);
        case Returned::TopTokens: return chunk.top_tokens(data, in, batch.top);
        case Returned::Loss:
        case Returned::Teacher: break;
    }
    return chunk.evaluate(data, in, batch.temperature);
}

}  // namespace

at::Tensor execute(const plan::PipelineSchedule& schedule, std::span<RankChunk> chunks,
                   const RuledBatch& batch, Communicator& pp, StepTrace& trace,
                   const std::function<void(const plan::Op&)>& before) {
    const std::vector<plan::Op>& ops = schedule.ranks[pp.rank()];
    Handed handed;
    std::vector<std::int64_t> sizes = {std::ssize(batch.microbatches)};
    const bool several = batch.returned != Returned::Loss;
    if (several) sizes.push_back(batch.numbers);
    const at::Tensor result = at::zeros(sizes, at::kDouble);
    for (std::size_t i = 0; i < ops.size(); ++i) {
        const plan::Op& op = ops[i];
        const auto& [chunk, ready] = chunks[op.chunk];
        const ChunkSpec& part = chunk.part();
        const Link link{pp, schedule.placing, schedule.stage(pp.rank(), op.chunk),
                        chunk.parameters().flat_weight.options(), handed};
        const Microbatch& data = batch.microbatches[op.microbatch];
        const std::int64_t sizes_MC[] = {chunk.hidden_rows(data), chunk.config().hidden};
        // A message between two stages is tagged with the first layer of the later stage.
        const auto tag = [&](Site site, std::int64_t layer) {
            return Tag{site, static_cast<int>(layer), op.microbatch};
        };
        at::Tensor in, out;
        if (before) before(op);
        switch (op.kind) {
            case plan::OpKind::Forward:
                if (!part.pre)
                    in = link.receive(link.stage - 1, sizes_MC,
                                      tag(Site::Activation, part.layer_begin));
                out = forward(chunk, op.microbatch, batch, in, ready);
                if (!part.post)
                    link.send(out, link.stage + 1, tag(Site::Activation, part.layer_end));
                else if (several)
                    result[op.microbatch].narrow(0, 0, out.numel()).copy_(out.flatten());
                else
                    result[op.microbatch] = out;
                break;
            case plan::OpKind::BackwardInput:
                if (part.takes_gradient())
                    in =
                        link.receive(link.stage + 1, sizes_MC, tag(Site::Gradient, part.layer_end));
                out = chunk.backward_input(op.microbatch, in, when_weights(ops, i, part), ready);
                if (part.sends_gradient())
                    link.send(out, link.stage - 1, tag(Site::Gradient, part.layer_begin));
                break;
            case plan::OpKind::BackwardWeight: chunk.backward_weight(op.microbatch, ready); break;
        }
        trace.push_back({.kind = TraceEvent::Kind::OpDone, .op = op});
    }
    return result;
}

}  // namespace roll::train
