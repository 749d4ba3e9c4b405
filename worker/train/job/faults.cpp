#include "worker/train/job/faults.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <ATen/ATen.h>
#include <unistd.h>

namespace roll::train {
namespace {

constexpr double kGlitch = 1e4;

// Returns one element of a trained weight, which flip() then damages. Takes the last trained
// parameter that is not split among data-parallel ranks, because every token uses the last
// parameters of a model.
at::Tensor an_element(TrainStep& trainer) {
    const Parameters& p = trainer.chunks().back().parameters();
    for (std::size_t i = p.specs.size(); i-- > 0;)
        if (!p.specs[i].frozen && !p.is_split[i] && p.weight[i].numel() > 0)
            return p.weight[i].view(-1).narrow(0, 0, 1);
    return p.flat_weight.narrow(0, 0, 1);
}

// Makes an element of a gradient far too large. In phase `optimizer`, changes this rank's copy of
// the sum over the replicas. In any other phase, changes a gradient before this sum. With staged
// gradients, only the gradients of one bucket exist before the sum: the bucket that is being
// reduced. The element is then in this bucket.
void glitch(TrainStep& trainer, spec::FaultPhase phase) {
    for (Chunk& chunk : trainer.chunks()) {
        const Parameters& p = chunk.parameters();
        const auto& grad = phase == spec::FaultPhase::Optimizer ? p.own_grad : p.grad;
        for (std::size_t i = p.specs.size(); i-- > 0;) {
            if (p.specs[i].frozen || !grad[i].defined() || grad[i].numel() == 0) continue;
            grad[i].view(-1).narrow(0, 0, 1).fill_(kGlitch);
            return;
        }
    }
}

// Flips a high bit of the element: in float64, a bit of the exponent, and in other types, a bit of
// the mantissa.
void flip(const at::Tensor& element) {
    const at::Tensor on_cpu = element.cpu();
    auto* const bytes = static_cast<unsigned char*>(on_cpu.data_ptr());
    bytes[on_cpu.nbytes() - 2] ^= 0x40U;
    if (!element.is_cpu()) element.copy_(on_cpu);
}

void make(const spec::FaultSpec& fault, TrainStep& trainer) {
    switch (fault.kind) {
        case spec::FaultKind::Kill: ::raise(SIGKILL); break;
        case spec::FaultKind::Hang:
            for (;;) ::pause();
        case spec::FaultKind::Exit: ::_exit(1);
        case spec::FaultKind::Nan: an_element(trainer).fill_(std::nan("")); break;
        case spec::FaultKind::Flip: flip(an_element(trainer)); break;
        case spec::FaultKind::Glitch: glitch(trainer, fault.phase); break;
        case spec::FaultKind::Slow:
            std::this_thread::sleep_for(std::chrono::milliseconds(fault.ms));
            break;
        case spec::FaultKind::DiskFull: break;  // fills_disk() implements this fault
    }
}

// Returns true if the fault changes weights or gradients. Before such a fault, the faulty rank
// waits for gathered weights, so all replicas must wait at the same time.
bool changes_numbers(const spec::FaultSpec& fault) {
    using enum spec::FaultKind;
    return fault.kind == Nan || fault.kind == Flip || fault.kind == Glitch;
}

}  // namespace

void inject_faults(const std::vector<spec::FaultSpec>& faults, int rank, std::int64_t step,
                   spec::FaultPhase phase, TrainStep& trainer) {
    const auto is_now = [&](const spec::FaultSpec& fault) {
        return fault.phase == phase && fault.step == step && changes_numbers(fault);
    };
    if (std::ranges::any_of(faults, is_now)) trainer.await_weights();
    for (const spec::FaultSpec& fault : faults) {
        const bool lasts = fault.kind == spec::FaultKind::Slow;
        if (fault.rank != rank || fault.phase != phase) continue;
        if (lasts ? step < fault.step : step != fault.step) continue;
        if (step == fault.step)
            std::printf("fault: %s at step %lld in %s\n", spec::name_of(fault.kind),
                        static_cast<long long>(step), spec::name_of(fault.phase));
        std::fflush(stdout);
        make(fault, trainer);
    }
}

bool fills_disk(const std::vector<spec::FaultSpec>& faults, int rank, std::int64_t step) {
    return std::ranges::any_of(faults, [&](const spec::FaultSpec& fault) {
        return fault.kind == spec::FaultKind::DiskFull && fault.rank == rank && fault.step == step;
    });
}

}  // namespace roll::train
