#include "common/spec/check/sizes.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "common/counted.hpp"
#include "common/spec/check/checkpoint_rules.hpp"
#include "common/spec/check/context.hpp"
#include "common/spec/check/lora_rules.hpp"
#include "common/spec/check/member.hpp"
#include "common/spec/check/pipeline.hpp"
#include "common/spec/check/problems.hpp"
#include "common/spec/check/tensor.hpp"
#include "common/spec/check/train_rules.hpp"
#include "common/spec/job/resources.hpp"
#include "common/spec/train/batch_size.hpp"
#include "common/spec/train/preference.hpp"

namespace roll::spec {
namespace {

std::optional<double> real(const Json& document, const std::string& pointer) {
    const Json number = key_at(document, pointer);
    return number.is_number() ? std::optional(number.get<double>()) : std::nullopt;
}

// Returns the product of positive numbers, at most 10^18, so that it fits 64 bits.
std::int64_t product(std::initializer_list<std::int64_t> factors) {
    std::int64_t all = 1;
    constexpr std::int64_t kMost = 1000000000000000000;
    for (const std::int64_t factor : factors) all = all > kMost / factor ? kMost : all * factor;
    return all;
}

// Returns the end of a message. It proposes those of the `changes` that are not empty.
std::string remedy(std::initializer_list<std::string> changes) {
    std::string text;
    for (const std::string& change : changes)
        if (!change.empty()) text += (text.empty() ? "; set " : " or ") + change;
    return text;
}

// Returns the data-parallel size: `dp` of the document, or the size that follows from the number of
// ranks. Adds a problem if the parallel sizes do not fit the number of ranks. Returns nullopt if
// the size is unknown, or if Roll chooses the parallel sizes of the job.
std::optional<std::int64_t> check_mesh(const Json& document, std::vector<Problem>& problems) {
    const auto nodes = positive(document, "/resources/nodes");
    const auto part = real(document, "/resources/gpus_per_node");
    // With a fraction of a GPU, the job has one rank per node.
    const bool shares = part && *part > 0 && *part < 1;
    const auto gpus =
        shares ? std::optional<std::int64_t>(1) : positive(document, "/resources/gpus_per_node");
    const auto slots = positive(document, "/resources/slots_per_node");
    if (!nodes || (!gpus && !slots)) return std::nullopt;
    // If slots_per_rank does not divide the slots, check_resources() reports the problem.
    const std::int64_t each =
        gpus ? 1 : positive(document, "/resources/slots_per_rank").value_or(1);
    if (!gpus && *slots % each != 0) return std::nullopt;
    const std::int64_t per_node =
        ranks_on_node(static_cast<int>(gpus.value_or(0)), static_cast<int>(slots.value_or(1)),
                      static_cast<int>(each));
    const std::int64_t world = *nodes * per_node;
    if (key_at(document, "/parallel/layout") == "auto") return std::nullopt;
    const auto dp = positive(document, "/parallel/dp");
    const std::int64_t tp = positive(document, "/parallel/tp").value_or(1);
    const std::int64_t pp = positive(document, "/parallel/pp").value_or(1);
    const std::int64_t cp = positive(document, "/parallel/cp").value_or(1);
    const std::string of_node = gpus ? counted(*gpus, "GPU")
                                : each == 1
                                    ? counted(*slots, "slot")
                                    : fmt::format("{} slots / {} slots per rank", *slots, each);
    const std::string ranks = fmt::format("resources give {} x {} = {}", counted(*nodes, "node"),
                                          of_node, counted(world, "rank"));
    const std::int64_t replica = product({tp, pp, cp}), wanted = product({dp.value_or(1), replica});
    // The number of ranks on each node must be a multiple of `step`, so that `wanted` divides the
    // total number of ranks.
    const std::int64_t step = wanted / std::gcd(wanted, *nodes);
    const std::int64_t enough = dp ? step : (per_node + step - 1) / step * step;
    // `largest` is the schema's limit for the key.
    const std::int64_t size = product({enough, each}), largest = gpus ? 64 : 4096;
    const std::string resize =
        size > largest
            ? ""
            : fmt::format("resources.{} to {}", gpus ? "gpus_per_node" : "slots_per_node", size);
    if (dp && wanted != world) {
        const std::string fitting =
            world % replica == 0 ? fmt::format("dp to {}", world / replica) : "";
        problems.push_back(
            {"parallel", fmt::format("dp {} x tp {} x pp {} x cp {} = {}, but {}{}", *dp, tp, pp,
                                     cp, counted(wanted, "rank"), ranks,
                                     remedy({fitting, wanted % *nodes == 0 ? resize : ""}))});
        return dp;
    }
    if (world % replica == 0) return world / replica;
    problems.push_back(
        {"parallel",
         fmt::format("tp {} x pp {} x cp {} = {} does not divide the number of ranks; {}{}", tp, pp,
                     cp, replica, ranks, remedy({resize}))});
    return std::nullopt;
}

void check_batches(const Json& document, std::optional<std::int64_t> dp,
                   std::vector<Problem>& problems) {
    const auto global = positive(document, "/train/global_batch_size");
    const auto micro = positive(document, "/train/micro_batch_size");
    if (!global || !micro || !dp || *global % (*micro * *dp) == 0) return;
    const std::int64_t rows = *micro * *dp, below = *global / rows * rows;
    problems.push_back(
        {"train.global_batch_size",
         fmt::format(
             "is {}; allowed: a multiple of micro_batch_size {} x dp {} = {}, such as {}", *global,
             *micro, *dp, rows,
             below == 0 ? std::to_string(rows) : fmt::format("{} or {}", below, below + rows))});
}

constexpr std::int64_t kLargestAxis = 1000000;  // the schema's maximum for a parallel axis

// Returns the pipeline's settings in `parallel` of the document, with defaults for missing keys;
// nullopt if a number exceeds kLargestAxis.
std::optional<ParallelSpec> pipeline_of(const Json& document) {
    const auto value_of = [&](const char* key) {
        return key_at(document, std::string("/parallel/") + key);
    };
    ParallelSpec parallel;
    for (const auto& [key, value] : {std::pair{"pp", &parallel.pp},
                                     {"vpp", &parallel.vpp},
                                     {"group", &parallel.group},
                                     {"first_layers", &parallel.first_layers},
                                     {"last_layers", &parallel.last_layers}}) {
        const auto given = positive(document, std::string("/parallel/") + key);
        if (given > kLargestAxis) return std::nullopt;
        if (given) *value = static_cast<int>(*given);
    }
    const auto text = [&](const char* key) {
        const Json value = value_of(key);
        return value.is_string() ? value.get<std::string>() : std::string();
    };
    parallel.schedule_file = text("schedule_file");
    parallel.pipeline_layout = text("pipeline_layout");
    parallel.stages_by_cost = text("stages") == "cost";
    parallel.account_for_embedding = value_of("account_for_embedding") == true;
    parallel.account_for_loss = value_of("account_for_loss") == true;
    parallel.schedule = schedule_named(text("schedule")).value_or(Schedule::Auto);
    return parallel;
}

void check_tensor(const Json& document, std::vector<Problem>& problems) {
    const std::int64_t tp = positive(document, "/parallel/tp").value_or(1);
    if (tp > kLargestAxis) return;
    // With experts, ranks share the inner columns of each expert.
    const auto of_expert = positive(document, "/model/moe_intermediate_size");
    const TensorSizes sizes{
        .heads = positive(document, "/model/num_attention_heads"),
        .kv_heads = positive(document, "/model/num_key_value_heads"),
        .intermediate = of_expert ? of_expert : positive(document, "/model/intermediate_size")};
    const ParallelSpec parallel{.tp = static_cast<int>(tp),
                                .sequence = key_at(document, "/parallel/sequence") == true};
    append(problems, tensor_problems(parallel, sizes));
}

// Checks the keys that only some kinds of recomputation use.
void check_recompute(const Json& document, std::vector<Problem>& problems) {
    const Json parallel = document.value("parallel", Json());
    if (!parallel.is_object()) return;
    const Json kind = parallel.value("recompute", Json("none"));
    const auto refuse = [&](const char* key, const std::string& message) {
        problems.push_back({std::string("parallel.") + key, message});
    };
    for (const char* key : {"recompute_method", "recompute_layers"})
        if (parallel.contains(key) && kind.is_string() && kind != "full")
            refuse(key, fmt::format("is {}, but parallel.recompute is {}; allowed: only with "
                                    "recompute `full`",
                                    parallel[key].dump(), kind.dump()));
    const bool is_block = parallel.value("recompute_method", Json()) == "block";
    if (is_block && kind == "full" && !parallel.contains("recompute_layers"))
        refuse("recompute_layers",
               "is missing; with recompute_method `block`, set it to the number of layers that are "
               "recomputed in each chunk");
    if (kind == "auto" && parallel.value("memory_limit", Json("0")) == "0")
        refuse(
            "memory_limit",
            "is 0; with recompute `auto`, set it to the memory that a rank may use, such as 3GiB");
}

// Returns the different sizes of a job's batches, as far as they are known and valid.
std::set<std::int64_t> batch_sizes(const Json& document) {
    std::set<std::int64_t> sizes;
    if (const auto global = positive(document, "/train/global_batch_size")) sizes.insert(*global);
    const Json schedule = key_at(document, "/train/batch_size_schedule");
    if (!schedule.is_string()) return sizes;
    if (const auto phases = parse_batch_schedule(schedule.get<std::string>()))
        for (const BatchPhase& phase : *phases) sizes.insert(phase.size);
    return sizes;
}

void check_pipeline(const Json& document, std::optional<std::int64_t> dp,
                    std::vector<Problem>& problems) {
    const auto parallel = pipeline_of(document);
    if (!parallel) return;
    const bool is_auto = key_at(document, "/parallel/layout") == "auto";
    if (is_auto && (parallel->stages_by_cost || !parallel->pipeline_layout.empty() ||
                    !parallel->schedule_file.empty()))
        problems.push_back({"parallel.layout",
                            "is auto, so Roll chooses the pipeline, but parallel.stages, "
                            "parallel.pipeline_layout or parallel.schedule_file describes a given "
                            "pipeline; remove that key, or set layout to given"});
    const Json limit = key_at(document, "/train/microbatch_limit");
    const bool varies = key_at(document, "/train/batch_size_schedule").is_string() ||
                        (limit.is_string() && limit != "0");
    if (varies && !parallel->schedule_file.empty())
        problems.push_back({"parallel.schedule_file",
                            "has one number of micro-batches, but a key of the job changes this "
                            "number during training; remove train.batch_size_schedule and "
                            "train.microbatch_limit, or schedule_file"});
    if (is_auto) return;  // the search checks each pipeline that it tries
    PipelineSizes sizes{.layers = positive(document, "/model/num_hidden_layers")};
    std::vector<Problem> found = pipeline_problems(*parallel, sizes);
    const auto micro = positive(document, "/train/micro_batch_size");
    const std::int64_t rows = micro && dp ? *micro * *dp : 0;
    const std::size_t of_layers = found.size();
    for (const std::int64_t size : batch_sizes(document)) {
        if (rows == 0 || size % rows != 0 || found.size() > of_layers) continue;
        sizes.microbatches = size / rows, sizes.rows = rows;
        found = pipeline_problems(*parallel, sizes);
    }
    append(problems, found);
}

void check_heads(const Json& document, std::vector<Problem>& problems) {
    const auto hidden = positive(document, "/model/hidden_size");
    const auto heads = positive(document, "/model/num_attention_heads");
    const auto kv_heads = positive(document, "/model/num_key_value_heads");
    const auto head_dim = positive(document, "/model/head_dim");
    if (!heads) return;
    if (kv_heads && *heads % *kv_heads != 0) {
        problems.push_back({"model.num_key_value_heads",
                            fmt::format("is {}; allowed: a divisor of num_attention_heads {}",
                                        *kv_heads, *heads)});
    }
    if (!hidden) return;
    if (!head_dim && *hidden % *heads != 0) {
        problems.push_back(
            {"model.hidden_size",
             fmt::format("is {}; allowed: a multiple of num_attention_heads {}", *hidden, *heads)});
        return;
    }
    const std::int64_t width = head_dim.value_or(*hidden / *heads);
    if (width % 2 != 0) {
        problems.push_back({head_dim ? "model.head_dim" : "model.hidden_size",
                            fmt::format("gives heads of width {}; the rotary embedding needs an "
                                        "even width",
                                        width)});
    }
}

// Checks that the objective supports the value of data.train_on.
void check_train_on(const Json& document, std::vector<Problem>& problems) {
    const Json train_on = key_at(document, "/data/train_on");
    if (train_on.is_null() || train_on == "assistant") return;
    const Json given = document.value("objective", Json());
    const std::string objective = objective_name(given);
    if (objective != "sft" && !learns_completions(given))
        problems.push_back({"data.train_on",
                            fmt::format("is {}; allowed with objective \"{}\": only `assistant`, "
                                        "because this objective trains on {}",
                                        train_on.dump(), objective,
                                        is_preference(objective) ? "the answers" : "all tokens")});
}

// Checks that a training has exactly one length, in steps or in epochs.
void check_run_length(const Json& document, std::vector<Problem>& problems) {
    const Json train = document.value("train", Json());
    if (!train.is_object()) return;
    const bool steps = train.contains("steps"), epochs = train.contains("epochs");
    if (!steps && !epochs)
        problems.push_back(
            {"train.steps", "is missing; allowed: an integer, 1 to 1000000000, or train.epochs"});
    if (steps && epochs)
        problems.push_back(
            {"train.epochs", fmt::format("is {}, but train.steps is {}; set only one of the two",
                                         train["epochs"].dump(), train["steps"].dump())});
}

void check_rates(const Json& document, std::vector<Problem>& problems) {
    const Json optimizer = key_at(document, "/train/optimizer");
    if (!optimizer.is_object()) return;
    const auto refuse = [&](const char* key, const auto& value, const std::string& allowed) {
        problems.push_back({std::string("train.optimizer.") + key,
                            fmt::format("is {}; allowed: {}", value, allowed)});
    };
    const auto lr = real(optimizer, "/lr"), decay = real(optimizer, "/weight_decay");
    for (const char* key : {"min_lr", "init_lr"}) {
        const auto rate = real(optimizer, std::string("/") + key);
        if (lr && rate && *rate > *lr) refuse(key, *rate, fmt::format("at most lr {}", *lr));
    }
    const auto steps = positive(document, "/train/steps"),
               asked = positive(optimizer, "/decay_steps");
    const auto warmup = positive(optimizer, "/warmup_steps");
    const char* const horizon_name = asked ? "decay_steps" : "train.steps";
    const auto horizon = asked ? asked : steps;
    const auto ratio = real(optimizer, "/warmup_ratio");
    if (warmup && ratio && *ratio > 0)
        refuse("warmup_ratio", *ratio, fmt::format("0 with warmup_steps {}", *warmup));
    if (horizon && warmup && *warmup > *horizon)
        refuse("warmup_steps", *warmup, fmt::format("at most {} {}", horizon_name, *horizon));
    if (optimizer.value("schedule", Json()) == "wsd" && horizon) {
        const std::int64_t most = *horizon - warmup.value_or(0);
        const std::int64_t falling = positive(optimizer, "/wsd_decay_steps").value_or(0);
        if (falling < 1 || falling > most)
            refuse(
                "wsd_decay_steps", falling,
                fmt::format(
                    "1 to {}, the number of steps after the warm-up ({} is {}), because schedule "
                    "is wsd",
                    most, horizon_name, *horizon));
    }
    const auto end = real(optimizer, "/weight_decay_end");
    const bool moves = optimizer.value("weight_decay_schedule", Json("constant")) != "constant";
    if (end && decay && (moves ? *end < *decay : *end != *decay))
        refuse("weight_decay_end", *end,
               moves ? fmt::format("at least weight_decay, which is {}", *decay)
                     : fmt::format("weight_decay, which is {}, because weight_decay_schedule is "
                                   "constant",
                                   *decay));
}

// Checks the keys that use the average of the weights.
void check_average(const Json& document, std::vector<Problem>& problems) {
    const bool averages = key_at(document, "/train/ema").is_object();
    for (const auto& [pointer, name] :
         {std::pair("/export/weights", "export.weights"),
          std::pair("/train/evaluation/weights", "train.evaluation.weights")})
        if (key_at(document, pointer) == "ema" && !averages)
            problems.push_back(
                {name, "is `ema`, but the job has no train.ema; allowed: last, or set train.ema"});
    if (key_at(document, "/export/weights") != "ema") return;
    const auto kept = positive(document, "/checkpoint/keep_optimizer");
    if (kept && key_at(document, "/export/of") == "best")
        problems.push_back({"checkpoint.keep_optimizer",
                            fmt::format("is {}, but the best checkpoint must keep its optimizer "
                                        "state, because export.weights is `ema`; allowed: 0",
                                        *kept)});
}

void check_retention(const Json& document, std::vector<Problem>& problems) {
    const auto kept = positive(document, "/checkpoint/keep_every");
    const auto every = positive(document, "/checkpoint/every");
    if (!kept || (every && *kept % *every == 0)) return;
    problems.push_back(
        {"checkpoint.keep_every",
         every ? fmt::format("is {}; allowed: a multiple of checkpoint.every {}", *kept, *every)
               : fmt::format("is {}, but checkpoint.every is 0; allowed: 0, or set "
                             "checkpoint.every",
                             *kept)});
}

void check_lengths(const Json& document, std::vector<Problem>& problems) {
    const auto sequence = positive(document, "/train/seq_length");
    const auto positions = positive(document, "/model/max_position_embeddings");
    if (sequence && positions && *sequence > *positions) {
        problems.push_back({"train.seq_length",
                            fmt::format("is {}; allowed: at most model.max_position_embeddings {}",
                                        *sequence, *positions)});
    }
    const auto vocab = positive(document, "/model/vocab_size");
    constexpr std::int64_t kBytes = 256;
    if (vocab && *vocab < kBytes && document.value("tokenizer", Json()) == "bytes") {
        problems.push_back({"model.vocab_size",
                            fmt::format("is {}; allowed: at least {} with the tokenizer `bytes`",
                                        *vocab, kBytes)});
    }
}

}  // namespace

std::optional<Problem> undivided_layers(const Json& document, std::int64_t layers) {
    const auto parallel = pipeline_of(document);
    return parallel ? undivided_layers(*parallel, layers) : std::nullopt;
}

std::vector<Problem> impossible_sizes(const Json& document) {
    std::vector<Problem> problems;
    const auto dp = check_mesh(document, problems);
    check_batches(document, dp, problems);
    append(problems, batch_problems(document, dp));
    check_tensor(document, problems);
    append(problems, context_problems(positive(document, "/parallel/cp").value_or(1),
                                      objective_name(document.value("objective", Json()))));
    check_pipeline(document, dp, problems);
    check_recompute(document, problems);
    append(problems, model_source_problems(document));
    check_heads(document, problems);
    check_lengths(document, problems);
    check_run_length(document, problems);
    check_train_on(document, problems);
    check_rates(document, problems);
    append(problems, measure_problems(document));
    check_average(document, problems);
    check_retention(document, problems);
    append(problems, valid_set_problems(document));
    append(problems, blend_problems(document));
    append(problems, optimizer_problems(document));
    append(problems, lora_problems(document));
    append(problems, preference_problems(document));
    append(problems, loss_scale_problems(document));
    append(problems, bad_step_problems(document));
    append(problems, checkpoint_format_problems(document));
    append(problems, export_problems(document));
    return problems;
}

}  // namespace roll::spec
