#include "worker/train/report/step_report.hpp"

#include <cmath>
#include <cstdio>

#include "worker/train/report/pair_report.hpp"

namespace roll::train {
namespace {

template <class... Values>
std::string text_of(const char* format, Values... values) {
    char text[128];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

double mib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

std::string duration_text(double seconds) {
    const long long whole = std::llround(seconds);
    if (whole < 60) return text_of("%llds", whole);
    if (whole < 3600) return text_of("%lldm %02llds", whole / 60, whole % 60);
    return text_of("%lldh %02lldm", whole / 3600, whole / 60 % 60);
}

OrderedJson row_of(const StepReport& r) {
    OrderedJson row = {{"step", r.step},
                       {"loss", r.result.loss},
                       {"lr", r.lr},
                       {"grad_norm", r.result.grad_norm},
                       {"clip_factor", r.result.clip_factor},
                       {"clipped_share", r.clipped_share},
                       {"tokens", r.tokens},
                       {"tokens_per_second", r.tokens_per_second()},
                       {"tokens_per_second_per_rank", r.tokens_per_second_per_rank()},
                       {"tflops", r.tokens_per_second() * r.flops.causal / 1e12}};
    if (r.result.pairs) put_pairs(row, "", "", *r.result.pairs);
    if (r.result.divergence) row[kTeacherKeys[0]] = *r.result.divergence;
    if (r.result.experts) {
        row["balance_loss"] = r.result.experts->loss;
        row["expert_load"] = r.result.experts->fullest;
    }
    if (r.result.grad_zeros) row["grad_zeros"] = *r.result.grad_zeros;
    if (!r.result.updated) row["skipped"] = true;
    if (r.result.too_high != TooHigh::None)
        row["spike"] = r.result.too_high == TooHigh::Loss ? "loss" : "grad_norm";
    if (r.loss_scale) {
        row["loss_scale"] = *r.loss_scale;
        row["overflows"] = r.overflows;
    }
    if (r.batch_size > 0) row["batch_size"] = r.batch_size;
    if (r.split > 0) row["split_microbatches"] = r.split;
    if (r.peak_flops > 0) {
        row["mfu"] = r.mfu(r.flops.causal);
        row["mfu_full"] = r.mfu(r.flops.full);
        row["peak_tflops"] = r.peak_flops / 1e12;
    }
    row["data_wait_seconds"] = r.data_wait_seconds();
    put_phases(row, r.phases);
    if (r.result.reduced > 0)
        row["reduced_early"] =
            static_cast<double>(r.result.reduced_early) / static_cast<double>(r.result.reduced);
    row["memory_bytes"] = r.memory.resident;
    row["memory_peak_bytes"] = r.memory.peak;
    if (r.gpu) {
        row["gpu_memory_bytes"] = r.gpu->allocated;
        row["gpu_memory_peak_bytes"] = r.gpu->peak;
    }
    row["eta_seconds"] = r.eta_seconds;
    return row;
}

OrderedJson row_of(std::int64_t step, const std::vector<LayerNorms>& layers) {
    OrderedJson row = {{"step", step}};
    for (const LayerNorms& one : layers) {
        row["grad_norm/" + one.name] = one.grad;
        row["weight_norm/" + one.name] = one.weight;
        if (one.weight > 0) row["update_ratio/" + one.name] = one.update / one.weight;
    }
    return row;
}

// Formats the line. Every part has a fixed width, even if the part is empty, so that the columns of
// all lines are aligned.
std::string line_of(const StepReport& r) {
    const double rate = r.tokens_per_second();
    const std::string steps = std::to_string(r.steps);
    std::string line = text_of("step %*lld/%s", static_cast<int>(steps.size()),
                               static_cast<long long>(r.step), steps.c_str());
    line += text_of("  loss %8.4f  lr %8.3g  norm %8.3f", r.result.loss, r.lr, r.result.grad_norm);
    if (r.result.pairs) line += "  " + pairs_text(*r.result.pairs);
    if (r.result.divergence) line += text_of("  teacher kl %8.4f", *r.result.divergence);
    if (r.result.experts)
        line += text_of("  balance %6.3f, fullest expert x%.2f", r.result.experts->loss,
                        r.result.experts->fullest);
    const std::string clip =
        text_of("clip x%.3f (%3.0f %% of steps)", r.result.clip_factor, 100 * r.clipped_share);
    line += text_of("  %-28s", r.result.updated ? clip.c_str() : "skipped");
    if (r.loss_scale)
        line += text_of("  scale %8.6g, %3lld overflows", *r.loss_scale,
                        static_cast<long long>(r.overflows));
    line += text_of("  %7.0f tokens/s, %7.0f a rank  %8.3g TFLOP/s", rate,
                    r.tokens_per_second_per_rank(), rate * r.flops.causal / 1e12);
    const std::string mfu = text_of("mfu %5.1f %% causal, %5.1f %% full",
                                    100 * r.mfu(r.flops.causal), 100 * r.mfu(r.flops.full));
    line += text_of("  %-32s", r.peak_flops > 0 ? mfu.c_str() : "");
    line += text_of("  wait %6.1f ms  memory %6.0f MiB, peak %6.0f", 1e3 * r.data_wait_seconds(),
                    mib(r.memory.resident), mib(r.memory.peak));
    if (r.gpu)
        line += text_of("  gpu %6.0f MiB, peak %6.0f", mib(r.gpu->allocated), mib(r.gpu->peak));
    return line + "  left " + duration_text(r.eta_seconds);
}

}  // namespace roll::train
