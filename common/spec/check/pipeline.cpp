#include "common/spec/check/pipeline.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "common/counted.hpp"
#include "common/spec/train/pipeline_layout.hpp"

namespace roll::spec {
namespace {

// Returns true if Megatron can divide the layers. The job may set the number of layers of the first
// and of the last stage. All other stages must get the same number of layers. Within a stage, all
// chunks must get the same number of layers.
bool divide(std::int64_t layers, const ParallelSpec& p) {
    if (p.first_layers == 0 && p.last_layers == 0) {
        const std::int64_t all = layers + p.account_for_embedding + p.account_for_loss;
        return all % (std::int64_t{p.pp} * p.vpp) == 0;
    }
    const std::int64_t others = p.pp - (p.first_layers > 0) - (p.last_layers > 0);
    const std::int64_t rest = layers - p.first_layers - p.last_layers;
    if (others < 0 || rest < 0 || (others == 0 ? rest : rest % others) != 0) return false;
    const std::int64_t each = others == 0 ? 0 : rest / others;
    return each % p.vpp == 0 && p.first_layers % p.vpp == 0 && p.last_layers % p.vpp == 0;
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i)
        text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
    return text;
}

// Returns the settings nearest to `p` that divide the layers, as text. Each setting changes one
// part of `p`. The parts are: the numbers of stages (pp) and chunks (vpp), whether the embedding
// and the output layer count as layers, and the sizes of the first and the last stage.
std::vector<std::string> nearest_layouts(std::int64_t layers, const ParallelSpec& p) {
    std::vector<std::string> found;
    const auto divides = [&](std::int64_t pp, std::int64_t vpp) {
        return pp > 0 && pp <= layers && layers % (pp * vpp) == 0;
    };
    for (int vpp = p.vpp - 1; vpp >= 1 && found.empty(); --vpp)
        if (divides(p.pp, vpp)) found.push_back(fmt::format("pp {} with vpp {}", p.pp, vpp));
    for (const int vpp : {p.vpp, 1}) {
        for (const int step : {-1, 1})
            for (std::int64_t pp = step < 0 ? std::min(layers, std::int64_t{p.pp} - 1) : p.pp + 1;
                 pp >= 1 && pp <= layers; pp += step)
                if (divides(pp, vpp) && (pp > 1 || vpp == 1)) {
                    found.push_back(fmt::format("pp {} with vpp {}", pp, vpp));
                    break;
                }
        if (!found.empty()) break;
    }
    const std::int64_t parts = std::int64_t{p.pp} * p.vpp;
    if (parts <= layers && (layers + 2) % parts == 0)
        found.emplace_back("account_for_embedding and account_for_loss");
    else if (parts <= layers && (layers + 1) % parts == 0)
        found.emplace_back("account_for_loss");
    const std::int64_t each = (layers + p.pp - 1) / p.pp, ends = layers - (p.pp - 2) * each;
    if (p.vpp == 1 && p.pp > 1 && ends >= 2)
        found.push_back(fmt::format("pp {} with first_layers {} and last_layers {}", p.pp,
                                    (ends + 1) / 2, ends / 2));
    return found;
}

std::string layout_text(const ParallelSpec& p) {
    std::string text = fmt::format("is {}, vpp {}", p.pp, p.vpp);
    if (p.first_layers > 0) text += fmt::format(", first_layers {}", p.first_layers);
    if (p.last_layers > 0) text += fmt::format(", last_layers {}", p.last_layers);
    if (p.account_for_embedding) text += ", account_for_embedding true";
    if (p.account_for_loss) text += ", account_for_loss true";
    return text;
}

// Returns true if Megatron's interleaved schedule accepts groups of this number of micro-batches.
bool groups_fit(std::int64_t microbatches, std::int64_t group, std::int64_t pp) {
    return microbatches >= pp && (microbatches % group == 0 || microbatches % group >= pp);
}

// Returns a text with the nearest numbers of micro-batches that groups_fit() accepts.
std::string nearest_microbatches(std::int64_t microbatches, std::int64_t group, std::int64_t pp,
                                 std::optional<std::int64_t> rows) {
    std::vector<std::string> found;
    for (const int step : {-1, 1})
        for (std::int64_t m = microbatches + step; m >= 1; m += step)
            if (groups_fit(m, group, pp)) {
                found.push_back(rows ? fmt::format("{} (global_batch_size {})", m, m * *rows)
                                     : std::to_string(m));
                break;
            }
    std::string text = "the nearest valid numbers of micro-batches are " + joined(found);
    for (std::int64_t other = pp; other <= microbatches; ++other)
        if (groups_fit(microbatches, other, pp))
            return text + fmt::format("; with {}, parallel.group {} is valid",
                                      counted(microbatches, "micro-batch"), other);
    return text;
}

bool has_groups(const ParallelSpec& p) {
    return p.schedule_file.empty() && p.vpp > 1 && p.pp > 1 &&
           (p.schedule == Schedule::Auto || p.schedule == Schedule::Interleaved);
}

// Reports the problems of the schedule: numbers of chunks or micro-batches that the schedule does
// not support.
void check_schedule(const ParallelSpec& p, const PipelineSizes& sizes,
                    const std::function<void(const char*, std::string)>& refuse) {
    const Schedule schedule = p.schedule;
    if (schedule == Schedule::Interleaved && p.vpp == 1)
        refuse("parallel.schedule",
               "is interleaved, but parallel.vpp is 1; set parallel.vpp to 2 or more, or the "
               "schedule to 1f1b");
    const bool one_chunk =
        schedule == Schedule::OneForwardOneBackward || schedule == Schedule::ZeroBubbleH1;
    if (one_chunk && p.vpp > 1)
        refuse("parallel.schedule",
               fmt::format("is {}, which has one chunk per stage, but parallel.vpp is {}; allowed "
                           "with this vpp: auto, interleaved, gpipe{}",
                           name_of(schedule), p.vpp, p.vpp == 2 ? ", zb-v, dualpipe-v" : ""));
    const bool is_v = schedule == Schedule::ZeroBubbleV || schedule == Schedule::DualPipeV;
    if (is_v && p.vpp != 2)
        refuse("parallel.schedule",
               fmt::format("is {}, which has two chunks per stage, but parallel.vpp is {}; set "
                           "parallel.vpp to 2",
                           name_of(schedule), p.vpp));
    if (schedule == Schedule::DualPipeV && sizes.microbatches && *sizes.microbatches < 2 * p.pp)
        refuse(
            "parallel.schedule",
            fmt::format("is dualpipe-v, which needs at least 2 x pp = {} micro-batches per "
                        "replica, but there are {}; use zb-v, or a larger train.global_batch_size",
                        2 * p.pp, *sizes.microbatches));
    if (!p.schedule_file.empty() && (schedule != Schedule::Auto || p.group > 0))
        refuse("parallel.schedule_file",
               "is set, but parallel.schedule or parallel.group also chooses the schedule; keep "
               "only one of these keys");
    if (!p.schedule_file.empty() && p.pp == 1)
        refuse("parallel.schedule_file",
               "is set, but parallel.pp is 1; set parallel.pp to 2 or more");
    if (p.group > 0 && p.schedule_file.empty() && !has_groups(p))
        refuse("parallel.group",
               fmt::format("is {}, but only an interleaved pipeline has groups; remove group, or "
                           "set pp and vpp to 2 or more and schedule to auto or interleaved",
                           p.group));
    else if (p.group > 0 && p.group < p.pp)
        refuse("parallel.group",
               fmt::format("is {}; allowed: {} (parallel.pp) or more", p.group, p.pp));
}

// Reports the problems of pipeline_layout and `stages`.
void check_stages(const ParallelSpec& p,
                  const std::function<void(const char*, std::string)>& refuse) {
    const bool counts_ends =
        p.first_layers > 0 || p.last_layers > 0 || p.account_for_embedding || p.account_for_loss;
    if (p.stages_by_cost && (counts_ends || !p.pipeline_layout.empty()))
        refuse("parallel.stages",
               "is cost, but first_layers, last_layers, account_for_embedding, account_for_loss or "
               "pipeline_layout also divides the layers; keep only one of these keys");
    if (p.pipeline_layout.empty()) return;
    const char* const key = "parallel.pipeline_layout";
    const std::string is = fmt::format("is \"{}\", which ", p.pipeline_layout);
    if (counts_ends)
        refuse(key, is + "gives the layers of every stage; remove first_layers, last_layers, "
                         "account_for_embedding and account_for_loss");
    const auto parts = layout_parts(p.pipeline_layout);
    if (!parts) return refuse(key, is + parts.error().message);
    if (std::ssize(*parts) != std::int64_t{p.pp} * p.vpp)
        refuse(key, is + fmt::format("has {}; allowed: pp {} x vpp {} = {}",
                                     counted(parts->size(), "part"), p.pp, p.vpp,
                                     std::int64_t{p.pp} * p.vpp));
    std::string all;
    for (const std::string& part : *parts) all += part;
    if (all.find('m') != std::string::npos)
        refuse(key,
               is + "has a layer of multi-token prediction, which Roll does not train; remove m");
    const bool ends = parts->front().starts_with('E') && parts->back().ends_with('L');
    if (!ends || std::ranges::count(all, 'E') != 1 || std::ranges::count(all, 'L') != 1)
        refuse(key, is + "must begin with E and end with L, and have no other E or L");
}

}  // namespace

std::optional<Problem> undivided_layers(const ParallelSpec& p, std::int64_t layers) {
    if (!p.pipeline_layout.empty()) {
        const auto parts = layout_parts(p.pipeline_layout);
        if (!parts) return std::nullopt;  // check_stages() reports this problem
        std::int64_t decoders = 0;
        for (const std::string& part : *parts) decoders += std::ranges::count(part, 't');
        if (decoders == layers) return std::nullopt;
        return Problem{"parallel.pipeline_layout",
                       fmt::format("is \"{}\", which has {} (t), but the model has {} "
                                   "(num_hidden_layers)",
                                   p.pipeline_layout, counted(decoders, "layer"), layers)};
    }
    if (p.stages_by_cost) {
        const std::int64_t parts = std::int64_t{p.pp} * p.vpp;
        if (parts <= layers + 1) return std::nullopt;
        return Problem{"parallel.pp",
                       fmt::format("is {}, vpp {}, which makes {} parts of the pipeline, but the "
                                   "model has {} (num_hidden_layers); allowed: at most {} parts",
                                   p.pp, p.vpp, parts, counted(layers, "layer"), layers + 1)};
    }
    if ((p.first_layers > 0 || p.last_layers > 0) &&
        (p.account_for_embedding || p.account_for_loss))
        return Problem{"parallel",
                       "has first_layers or last_layers together with account_for_embedding or "
                       "account_for_loss; Megatron does not accept this combination"};
    if (divide(layers, p)) return std::nullopt;
    const std::vector<std::string> nearest = nearest_layouts(layers, p);
    return Problem{"parallel.pp",
                   fmt::format("{}, which does not divide the {} of the model "
                               "(num_hidden_layers); the nearest valid settings: {}",
                               layout_text(p), counted(layers, "layer"), joined(nearest))};
}

std::vector<Problem> pipeline_problems(const ParallelSpec& p, const PipelineSizes& sizes) {
    std::vector<Problem> problems;
    const auto refuse = [&](const char* path, std::string message) {
        problems.push_back({path, std::move(message)});
    };
    if (p.vpp > 1 && p.pp == 1)
        refuse(
            "parallel.vpp",
            fmt::format("is {}, but parallel.pp is 1; allowed: 1, or set parallel.pp to 2 or more",
                        p.vpp));
    check_schedule(p, sizes, refuse);
    check_stages(p, refuse);
    const int group = std::max(p.group, p.pp);
    // If the job sets no group size, Schedule::Auto chooses the group size. A valid group size
    // exists if the number of micro-batches is at least pp.
    const bool is_free = p.schedule == Schedule::Auto && p.group == 0;
    if (has_groups(p) && sizes.microbatches &&
        (is_free ? *sizes.microbatches < p.pp : !groups_fit(*sizes.microbatches, group, p.pp)))
        refuse("parallel.vpp",
               fmt::format("is {}, so the schedule takes micro-batches in groups of {}. With {} "
                           "micro-batches for each replica (global_batch_size / micro_batch_size / "
                           "dp), the last group has fewer micro-batches than pp {}; {}; or set vpp "
                           "to 1",
                           p.vpp, group, *sizes.microbatches, p.pp,
                           nearest_microbatches(*sizes.microbatches, group, p.pp, sizes.rows)));
    if (sizes.layers)
        if (auto problem = undivided_layers(p, *sizes.layers))
            problems.push_back(*std::move(problem));
    return problems;
}

}  // namespace roll::spec
