#include "common/spec/train/train.hpp"

#include <cmath>

#include <fmt/format.h>

#include "common/counted.hpp"
#include "common/spec/job/resources.hpp"
#include "common/spec/schema/units.hpp"
#include "common/spec/train/model_source.hpp"
#include "common/spec/train/names.hpp"
#include "common/spec/train/read_lora.hpp"
#include "common/spec/train/read_samples.hpp"

namespace roll::spec {
namespace {

// Names of the enumerators, in the order of the enumerators.
constexpr std::array kTrainOn = {"assistant", "all", "last"};
constexpr std::array kPrecisions = {"fp32", "fp64", "bf16", "fp16"};
constexpr std::array kNormalizes = {"step", "microbatch"};
constexpr std::array kFaultPhases = {"forward", "backward", "reduce", "optimizer", "save"};
constexpr std::array kFaultKinds = {"kill", "hang",   "nan",  "exit",
                                    "flip", "glitch", "slow", "disk_full"};
constexpr std::array kLrSchedules = {"constant", "linear", "cosine", "inverse-square-root", "wsd"};
constexpr std::array kWsdDecays = {"linear", "cosine", "exponential", "minus_sqrt"};
constexpr std::array kDecaySchedules = {"constant", "linear", "cosine"};
constexpr std::array kExportDtypes = {"fp32", "bf16", "fp16"};

constexpr std::array kObjectives = {"pretrain", "sft", "distill", "dpo",   "simpo",
                                    "orpo",     "cpo", "kto",     "reward"};

// Returns a section of the document. Returns an empty object if the section is missing, because all
// its keys have defaults.
const Json& section(JsonReader& reader, const char* key) {
    static const Json kEmpty = Json::object();
    const Json& json = reader.raw(key);
    return json.is_null() ? kEmpty : json;
}

Result<ModelSource> read_model(const Json& json) {
    JsonReader reader(json, "model");
    ModelSource model;
    model.from = reader.get_or("from", model.from);
    if (model.from.empty())
        model.family = reader.get<std::string>("family");
    else
        model.vocab = reader.get_or("vocab_size", model.vocab);
    model.freeze = reader.get_or("freeze", model.freeze);
    model.adapters = reader.get_or("adapters", model.adapters);
    model.optimizer = reader.get_or("optimizer", model.optimizer);
    ROLL_TRY_VOID(reader.finish_lenient());
    Json sizes = model.from.empty() ? json : overridden_of(json);
    for (const char* key : {"family", "from", "freeze", "adapters", "optimizer"}) sizes.erase(key);
    model.hf_config = sizes.dump();
    return model;
}

Result<DataSpec> read_data(const Json& json) {
    JsonReader reader(json, "data");
    DataSpec data;
    data.train = reader.get<std::vector<std::string>>("train");
    read_blend(reader, data);
    read_text_field(reader, data);
    ROLL_TRY_VOID(read_rows(reader, data));
    data.track = reader.get_or("track", data.track);
    ROLL_TRY_VOID(read_valid(reader.raw("valid"), data));
    data.prompt_field = reader.get_or("prompt_field", data.prompt_field);
    data.completion_field = reader.get_or("completion_field", data.completion_field);
    data.label_field = reader.get_or("label_field", data.label_field);
    data.margin_field = reader.get_or("margin_field", data.margin_field);
    using FieldNames = std::map<std::string, std::string>;
    data.columns = section(reader, "columns").get<FieldNames>();
    data.tags = section(reader, "tags").get<FieldNames>();
    const auto train_on = reader.get_or<std::string>("train_on", "assistant");
    data.skip_bad_lines = reader.get_or<std::string>("on_bad_line", "fail") == "skip";
    data.add_special = reader.get_or("add_special", data.add_special);
    data.documents_apart =
        reader.get_or<std::string>("attention", "across_documents") == "within_documents";
    data.append_eos = reader.get_or("append_eos", data.append_eos);
    data.verify = reader.get_or("verify", data.verify);
    ROLL_TRY_VOID(reader.finish_lenient());
    ROLL_TRY(data.train_on, pick<TrainOn>("data.train_on", train_on, kTrainOn));
    return data;
}

// Prepares `data` for objective sft or for a preference objective. For sft, each line of a file is
// a prompt with its completion, or a conversation. For preferences, each line has two completions,
// or one completion and a label. A token attends only to tokens of the same line, except if
// `data.packing` is `wrapped`.
Result<void> learn_completions(const TrainSpec& spec, const std::string& objective,
                               DataSpec& data) {
    const bool prefers = spec.objective == Objective::Preference;
    data.labels = prefers && spec.preference.is_unpaired();
    data.pairs = prefers && !data.labels;
    std::string lines =
        fmt::format("{} and {}, or with conversations", data.prompt_field, data.completion_field);
    if (data.pairs) lines = "chosen and rejected";
    if (data.labels)
        lines = fmt::format("{} and {}, or chosen and rejected", data.completion_field,
                            data.label_field);
    std::vector<std::string> paths = data.train;
    for (const ValidFiles& set : data.valid_files)
        paths.insert(paths.end(), set.paths.begin(), set.paths.end());
    for (const std::string& path : paths)
        if (!path.ends_with(".jsonl") && !path.ends_with(".json") && !path.ends_with(".parquet"))
            return fail(ErrorCode::InvalidArgument,
                        "objective " + objective + " needs .jsonl, .json or .parquet files with " +
                            "the fields " + lines + ", but " + path + " is a file of another type");
    data.completions = true;
    if (data.packing != Packing::Wrapped) data.documents_apart = true;
    return {};
}

// Reads the objective, and adjusts spec.data to the objective.
Result<void> read_objective(const Json& json, TrainSpec& spec) {
    JsonReader reader(json, "job");
    const Json& given = reader.raw("objective");
    const std::string objective = objective_name(given);
    ROLL_TRY_VOID(reader.finish_lenient());
    ROLL_TRY_VOID(pick<std::size_t>("objective", objective, kObjectives));
    if (is_preference(objective)) spec.objective = Objective::Preference;
    if (spec.objective == Objective::Preference)
        spec.preference = preference_spec(given);
    else
        spec.loss = token_loss_spec(given);
    spec.teacher = teacher_spec(given);
    if (objective == "sft" || learns_completions(given)) spec.objective = Objective::Sft;
    if (spec.objective == Objective::Pretrain) return {};
    return learn_completions(spec, objective, spec.data);
}

// Reads a size such as "16GiB". The text "0" means 0 bytes.
Result<std::int64_t> read_size(JsonReader& reader, const char* key) {
    const auto text = reader.get_or<std::string>(key, "0");
    if (text == "0") return 0;
    ROLL_TRY(const std::uint64_t bytes, parse_size(text));
    return static_cast<std::int64_t>(bytes);
}

// Reads the settings of activation recomputation, and the memory limit of a rank.
Result<void> read_recompute(JsonReader& reader, ParallelSpec& parallel) {
    const auto recompute = reader.get_or<std::string>("recompute", "none");
    const auto method = reader.get_or<std::string>("recompute_method", "uniform");
    parallel.recompute_layers = reader.get_or("recompute_layers", 1);
    ROLL_TRY(parallel.memory_limit, read_size(reader, "memory_limit"));
    const auto known = recompute_named(recompute);
    if (!known)
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("parallel.recompute {} needs a newer Roll on this machine", recompute));
    parallel.recompute = *known;
    parallel.recompute_method =
        method == "block" ? RecomputeMethod::Block : RecomputeMethod::Uniform;
    return {};
}

// Reads the mesh. A missing dp is the world size divided by the sizes of the other axes.
Result<ParallelSpec> read_parallel(const Json& json, const Json& resources_json) {
    JsonReader resources(resources_json, "resources");
    const int nodes = resources.get_or("nodes", 1);
    const double gpus = resources.get_or("gpus_per_node", 0.0);
    const int slots = resources.get_or("slots_per_node", 1);
    const int each = resources.get_or("slots_per_rank", 1);
    ROLL_TRY_VOID(resources.finish_lenient());
    if (each < 1 || (gpus == 0 && slots % each != 0))
        return fail(ErrorCode::InvalidArgument,
                    "resources.slots_per_rank is " + std::to_string(each) +
                        "; allowed: a divisor of slots_per_node " + std::to_string(slots));
    const int ranks = nodes * ranks_on_node(static_cast<int>(std::ceil(gpus)), slots, each);

    JsonReader reader(json, "parallel");
    ParallelSpec parallel;
    if (reader.get_or<std::string>("layout", "given") == "auto")
        return fail(ErrorCode::InvalidArgument,
                    "parallel.layout is auto; submit the job with `rollctl submit`");
    parallel.tp = reader.get_or("tp", 1);
    parallel.pp = reader.get_or("pp", 1);
    parallel.vpp = reader.get_or("vpp", 1);
    parallel.cp = reader.get_or("cp", 1);
    parallel.ep = reader.get_or("ep", 1);
    parallel.sequence = reader.get_or("sequence", false);
    parallel.first_layers = reader.get_or("first_layers", 0);
    parallel.last_layers = reader.get_or("last_layers", 0);
    parallel.account_for_embedding = reader.get_or("account_for_embedding", false);
    parallel.account_for_loss = reader.get_or("account_for_loss", false);
    parallel.schedule_file = reader.get_or<std::string>("schedule_file", "");
    parallel.pipeline_layout = reader.get_or<std::string>("pipeline_layout", "");
    parallel.stages_by_cost = reader.get_or<std::string>("stages", "even") == "cost";
    parallel.group = reader.get_or("group", 0);
    ROLL_TRY(parallel.activation_limit, read_size(reader, "activation_limit"));
    ROLL_TRY_VOID(read_recompute(reader, parallel));
    parallel.zero = reader.get_or("zero", 0);
    ROLL_TRY(parallel.collective_timeout,
             parse_duration(reader.get_or<std::string>("collective_timeout", "10m")));
    if (parallel.collective_timeout < std::chrono::seconds(1))
        return fail(ErrorCode::InvalidArgument,
                    "parallel.collective_timeout is 0s; give 1s or more");
    const auto schedule = reader.get_or<std::string>("schedule", "auto");
    const int others = parallel.tp * parallel.pp * parallel.cp;
    if (others < 1)
        return fail(ErrorCode::InvalidArgument, "parallel: tp, pp and cp must be at least 1");
    parallel.dp = reader.get_or("dp", ranks / others);
    ROLL_TRY_VOID(reader.finish_lenient());
    if (parallel.dp < 1)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("parallel.dp is {}; allowed: at least 1. The job has {}, and "
                                "tp x pp x cp is {}",
                                parallel.dp, counted(ranks, "rank"), others));
    const auto known = schedule_named(schedule);
    if (!known)
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("parallel.schedule {} needs a newer Roll on this machine", schedule));
    parallel.schedule = *known;
    return parallel;
}

Result<OptimizerSpec> read_optimizer(const Json& json) {
    JsonReader reader(json, "train.optimizer");
    OptimizerSpec optimizer;
    optimizer.lr = reader.get_or("lr", optimizer.lr);
    optimizer.init_lr = reader.get_or("init_lr", optimizer.init_lr);
    optimizer.min_lr = reader.get_or("min_lr", optimizer.min_lr);
    optimizer.warmup_steps = reader.get_or("warmup_steps", optimizer.warmup_steps);
    optimizer.warmup_ratio = reader.get_or("warmup_ratio", optimizer.warmup_ratio);
    optimizer.decay_steps = reader.get_or("decay_steps", optimizer.decay_steps);
    const auto schedule = reader.get_or<std::string>("schedule", "cosine");
    optimizer.wsd_decay_steps = reader.get_or("wsd_decay_steps", optimizer.wsd_decay_steps);
    const auto wsd_decay = reader.get_or<std::string>("wsd_decay", "exponential");
    optimizer.weight_decay = reader.get_or("weight_decay", optimizer.weight_decay);
    optimizer.weight_decay_end = reader.get_or("weight_decay_end", optimizer.weight_decay);
    const auto decay_schedule = reader.get_or<std::string>("weight_decay_schedule", "constant");
    optimizer.clip_grad = reader.get_or("clip_grad", optimizer.clip_grad);
    optimizer.beta1 = reader.get_or("beta1", optimizer.beta1);
    optimizer.beta2 = reader.get_or("beta2", optimizer.beta2);
    optimizer.eps = reader.get_or("eps", optimizer.eps);
    const double share = reader.get_or("offload_fraction", 1.0);
    optimizer.offload = reader.get_or<std::string>("offload", "none") == "state" ? share : 0;
    const Json& decays = reader.raw("decays");
    for (const auto& [pattern, decays_it] : decays.items())
        optimizer.decays.emplace_back(pattern, decays_it == true);
    ROLL_TRY_VOID(reader.finish_lenient());
    ROLL_TRY(optimizer.schedule,
             pick<LrSchedule>("train.optimizer.schedule", schedule, kLrSchedules));
    ROLL_TRY(optimizer.wsd_decay,
             pick<WsdDecay>("train.optimizer.wsd_decay", wsd_decay, kWsdDecays));
    ROLL_TRY(optimizer.weight_decay_schedule,
             pick<WeightDecaySchedule>("train.optimizer.weight_decay_schedule", decay_schedule,
                                       kDecaySchedules));
    ROLL_TRY_VOID(read_update_rule(json, optimizer));
    return optimizer;
}

Result<SampleSpec> read_sample(const Json& json) {
    JsonReader reader(json, "train.sample");
    SampleSpec sample;
    sample.every = reader.get_or("every", sample.every);
    sample.prompts = reader.get_or("prompts", sample.prompts);
    sample.max_tokens = reader.get_or("max_tokens", sample.max_tokens);
    ROLL_TRY_VOID(reader.finish_lenient());
    return sample;
}

Result<MetricsSpec> read_metrics(const Json& json) {
    JsonReader reader(json, "train.metrics");
    MetricsSpec metrics;
    metrics.csv = reader.get_or("csv", metrics.csv);
    metrics.tensorboard = reader.get_or("tensorboard", metrics.tensorboard);
    metrics.grad_zeros = reader.get_or("grad_zeros", metrics.grad_zeros);
    metrics.norms_every = reader.get_or("norms_every", metrics.norms_every);
    ROLL_TRY_VOID(reader.finish_lenient());
    return metrics;
}

// Reads the keys `metric` and `mode`. A missing mode follows from the metric's name.
MetricSpec read_metric(JsonReader& reader) {
    MetricSpec metric;
    metric.name = reader.get_or("metric", metric.name);
    const auto is_of = [&](const char* part) {
        return metric.name.find(part) != std::string::npos;
    };
    const bool falls = is_of("loss") || is_of("perplexity") || is_of("bits_per_byte");
    metric.higher = reader.get_or<std::string>("mode", falls ? "min" : "max") == "max";
    return metric;
}

Result<MetricSpec> read_best(const Json& json) {
    JsonReader reader(json, "train.best");
    const MetricSpec best = read_metric(reader);
    ROLL_TRY_VOID(reader.finish_lenient());
    return best;
}

Result<EmaSpec> read_ema(const Json& json) {
    JsonReader reader(json, "train.ema");
    EmaSpec ema;
    ema.decay = reader.get_or("decay", ema.decay);
    ema.every = reader.get_or("every", ema.every);
    ROLL_TRY_VOID(reader.finish_lenient());
    return ema;
}

Result<EarlyStopSpec> read_early_stop(const Json& json) {
    JsonReader reader(json, "train.early_stop");
    EarlyStopSpec stop;
    stop.metric = read_metric(reader);
    stop.patience = reader.get_or("patience", stop.patience);
    stop.min_delta = reader.get_or("min_delta", stop.min_delta);
    ROLL_TRY_VOID(reader.finish_lenient());
    return stop;
}

Result<EvaluationSpec> read_evaluation(const Json& json) {
    JsonReader reader(json, "train.evaluation");
    EvaluationSpec evaluation;
    evaluation.tasks = reader.get_or("tasks", evaluation.tasks);
    evaluation.every = reader.get_or("every", evaluation.every);
    evaluation.averaged = reader.get_or<std::string>("weights", "last") == "ema";
    ROLL_TRY_VOID(reader.finish_lenient());
    return evaluation;
}

Result<FaultSpec> read_fault(const Json& json) {
    JsonReader reader(json, "faults");
    FaultSpec fault;
    fault.rank = reader.get<int>("rank");
    fault.step = reader.get<std::int64_t>("step");
    fault.ms = reader.get_or<std::int64_t>("ms", 0);
    const auto phase = reader.get<std::string>("phase"), kind = reader.get<std::string>("kind");
    ROLL_TRY_VOID(reader.finish_lenient());
    ROLL_TRY(fault.phase, pick<FaultPhase>("train.faults.phase", phase, kFaultPhases));
    ROLL_TRY(fault.kind, pick<FaultKind>("train.faults.kind", kind, kFaultKinds));
    return fault;
}

Result<void> read_training(const Json& json, TrainSpec& spec) {
    JsonReader reader(json, "train");
    spec.seq_length = reader.get<std::int64_t>("seq_length");
    spec.global_batch_size = reader.get<std::int64_t>("global_batch_size");
    if (json.is_object() && json.value("micro_batch_size", Json()) == "auto")
        return fail(ErrorCode::InvalidArgument,
                    "train.micro_batch_size is auto; submit the job with `rollctl submit`");
    spec.micro_batch_size = reader.get<std::int64_t>("micro_batch_size");
    ROLL_TRY(spec.batch_phases,
             parse_batch_schedule(reader.get_or<std::string>("batch_size_schedule", "")));
    spec.balance = reader.get_or("balance", spec.balance);
    ROLL_TRY(spec.microbatch_limit, read_size(reader, "microbatch_limit"));
    spec.epochs = reader.get_or("epochs", spec.epochs);
    const auto length = spec.epochs > 0 ? reader.get_or<std::int64_t>("steps", 0)
                                        : reader.get<std::int64_t>("steps");
    spec.seed = reader.get_or("seed", spec.seed);
    spec.valid_every = reader.get_or("valid_every", spec.valid_every);
    const Json &steps_of = reader.raw("valid_every_of"), &tokens_of = reader.raw("valid_tokens_of");
    for (const auto& [name, steps] : steps_of.items())
        spec.valid_intervals[name].steps = steps.get<std::int64_t>();
    for (const auto& [name, tokens] : tokens_of.items())
        spec.valid_intervals[name].tokens = tokens.get<std::int64_t>();
    spec.valid_at_start = reader.get_or("valid_at_start", spec.valid_at_start);
    spec.deterministic = reader.get_or("deterministic", spec.deterministic);
    spec.offloads_activations = reader.get_or<std::string>("activation_offload", "none") == "saved";
    const auto precision = reader.get_or<std::string>("precision", "fp32");
    const auto normalize = reader.get_or<std::string>("normalize", "step");
    spec.peak_tflops = reader.get_or("peak_tflops", spec.peak_tflops);
    spec.check_replicas = reader.get_or("check_replicas", spec.check_replicas);
    for (const Json& fault : reader.raw("faults")) {
        ROLL_TRY(FaultSpec read, read_fault(fault));
        spec.faults.push_back(read);
    }
    spec.lora = lora_spec(reader.raw("lora"));
    spec.loss_scale = loss_scale_spec(reader.raw("loss_scale"));
    ROLL_TRY(spec.optimizer, read_optimizer(section(reader, "optimizer")));
    ROLL_TRY(spec.optimizer.ema, read_ema(section(reader, "ema")));
    set_steps(spec, length);
    ROLL_TRY(spec.sample, read_sample(section(reader, "sample")));
    ROLL_TRY(spec.metrics, read_metrics(section(reader, "metrics")));
    ROLL_TRY(spec.early_stop, read_early_stop(section(reader, "early_stop")));
    ROLL_TRY(spec.best, read_best(section(reader, "best")));
    ROLL_TRY(spec.evaluation, read_evaluation(section(reader, "evaluation")));
    ROLL_TRY_VOID(reader.finish_lenient());
    ROLL_TRY(spec.precision, pick<Precision>("train.precision", precision, kPrecisions));
    ROLL_TRY(spec.normalize, pick<Normalize>("train.normalize", normalize, kNormalizes));
    ROLL_TRY(spec.bad_steps, bad_step_spec(json));
    return {};
}

Result<void> read_checkpoint(const Json& json, TrainSpec& spec) {
    JsonReader reader(json, "checkpoint");
    spec.checkpoint_every = reader.get_or("every", spec.checkpoint_every);
    spec.checkpoint_keep = reader.get_or("keep", spec.checkpoint_keep);
    spec.checkpoint_keep_every = reader.get_or("keep_every", spec.checkpoint_keep_every);
    spec.checkpoint_keep_optimizer = reader.get_or<std::int64_t>("keep_optimizer", 0);
    spec.checkpoint_first_step = reader.get_or("first_step", spec.checkpoint_first_step);
    spec.checkpoint_keep_best = reader.get_or("keep_best", spec.checkpoint_keep_best);
    if (reader.get_or<std::string>("format", "mca") == "torch_dist")
        spec.checkpoint_format = CheckpointFormat::TorchDist;
    spec.checkpoint_buffer_mib = reader.get_or("buffer_mib", spec.checkpoint_buffer_mib);
    const auto wait = reader.get_or<std::string>("wait_for_space", "10m");
    ROLL_TRY_VOID(reader.finish_lenient());
    ROLL_TRY(spec.checkpoint_wait_for_space, parse_duration(wait));
    return {};
}

Result<void> read_export(const Json& json, TrainSpec& spec) {
    if (json == "none") {
        spec.export_format = ExportFormat::None;
        return {};
    }
    JsonReader reader(json, "export");
    const auto dtype = reader.get_or<std::string>("dtype", "bf16");
    spec.export_best = reader.get_or<std::string>("of", "last") == "best";
    spec.export_averaged = reader.get_or<std::string>("weights", "last") == "ema";
    spec.export_merged = reader.get_or("merge", false);
    spec.export_every = reader.get_or("every", spec.export_every);
    spec.export_keep = reader.get_or("keep", spec.export_keep);
    ROLL_TRY_VOID(reader.finish_lenient());
    ROLL_TRY(spec.export_dtype, pick<ExportDtype>("export.dtype", dtype, kExportDtypes));
    return {};
}

}  // namespace

const char* name_of(FaultPhase phase) { return name_in(kFaultPhases, phase); }
const char* name_of(FaultKind kind) { return name_in(kFaultKinds, kind); }

void set_steps(TrainSpec& spec, std::int64_t steps) {
    spec.steps = steps;
    OptimizerSpec& optimizer = spec.optimizer;
    if (optimizer.warmup_ratio > 0)
        optimizer.warmup_steps = static_cast<std::int64_t>(
            std::ceil(optimizer.warmup_ratio * static_cast<double>(steps)));
}

Result<TrainSpec> train_spec(std::string_view document) {
    ROLL_TRY(const Json json, parse_json(document));
    JsonReader reader(json, "job");
    const auto kind = reader.get<std::string>("kind");
    TrainSpec spec;
    spec.name = reader.get_or<std::string>("name", "train");
    spec.tokenizer = reader.get_or<std::string>("tokenizer", spec.tokenizer);
    ROLL_TRY_VOID(reader.finish_lenient());
    if (kind != "train" && kind != "resume")
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("the kind of the job is {}; allowed: train or resume", kind));
    ROLL_TRY(spec.model, read_model(reader.raw("model")));
    ROLL_TRY(spec.data, read_data(reader.raw("data")));
    ROLL_TRY_VOID(read_objective(json, spec));
    ROLL_TRY(spec.parallel,
             read_parallel(section(reader, "parallel"), section(reader, "resources")));
    ROLL_TRY_VOID(read_training(reader.raw("train"), spec));
    ROLL_TRY_VOID(read_checkpoint(section(reader, "checkpoint"), spec));
    ROLL_TRY_VOID(read_export(section(reader, "export"), spec));
    if (spec.micro_batch_size < 1)
        return fail(ErrorCode::InvalidArgument, "train.micro_batch_size must be at least 1");
    return spec;
}

Result<TrainSpec> tokenize_spec(std::string_view document) {
    ROLL_TRY(const Json json, parse_json(document));
    JsonReader reader(json, "job");
    TrainSpec spec;
    spec.name = reader.get_or<std::string>("name", "tokenize");
    spec.tokenizer = reader.get_or<std::string>("tokenizer", spec.tokenizer);
    const Json& model = section(reader, "model");
    ROLL_TRY(spec.data, read_data(reader.raw("data")));
    ROLL_TRY_VOID(reader.finish_lenient());
    ROLL_TRY_VOID(read_objective(json, spec));
    spec.model.from = model.value("from", std::string());
    return spec;
}

}  // namespace roll::spec
