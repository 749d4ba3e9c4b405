// The start of the trainer, up to its first step: connects the ranks, restores the state, and opens
// the outputs.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include <ATen/ATen.h>
#include <net/if.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/hash.hpp"
#include "worker/plan/mesh.hpp"
#include "worker/train/comm/timed_communicator.hpp"
#include "worker/train/comm/watched_communicator.hpp"
#include "worker/train/data/epochs.hpp"
#include "worker/train/data/sample_order.hpp"
#include "worker/train/job/bad_step.hpp"
#include "worker/train/job/faults.hpp"
#include "worker/train/job/loss_scale.hpp"
#include "worker/train/job/offload_memory.hpp"
#include "worker/train/job/teacher_pass.hpp"
#include "worker/train/job/trainer.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/job_schedule.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/process/launch.hpp"
#include "worker/train/report/pair_report.hpp"
#include "worker/train/report/run_report.hpp"
#include "worker/train/save/adapter_files.hpp"
#include "worker/train/save/check_given.hpp"
#include "worker/train/save/continuation.hpp"
#include "worker/train/save/continue_optimizer.hpp"
#include "worker/train/save/dist_part.hpp"
#include "worker/train/save/first_error.hpp"
#include "worker/train/save/job_record.hpp"
#include "worker/train/save/left_out.hpp"
#include "worker/train/save/poisoned.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// Upper limits of two durations: the interval at which a rank publishes its transfers, and the time
// after which a waiting rank looks at the other ranks' transfers. Both limits are far below 5
// minutes. If hang_after is not set, roll-worker does not count an attempt as hung before 5 minutes
// have passed.
constexpr std::chrono::milliseconds kPublishedMost{5'000}, kPatienceMost{120'000};

// The environment variable that sets Gloo's network interface. Other programs that use LibTorch
// read a variable of the same name.
constexpr const char* kInterface = "GLOO_SOCKET_IFNAME";

std::string host_name() {
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    return name;
}

FabricOptions fabric_options(const protocol::Launch& launch, int rank,
                             std::chrono::milliseconds timeout) {
    FabricOptions options;
    options.rendezvous_file = fs::path(launch.logs) / "rendezvous";
    options.nonce = launch.nonce;
    options.prefix =
        std::to_string(launch.attempt.job.value) + "/" + to_string(launch.attempt.token);
    options.rank = rank;
    options.collective_timeout = timeout;
    if (launch.nodes > 1) options.host = host_name();
    if (const char* const name = std::getenv(kInterface)) options.interface = name;
    if (!options.interface.empty() && ::if_nametoindex(options.interface.c_str()) == 0)
        throw RankFailure(2, std::string(kInterface) + " is " + options.interface +
                                 ", but this machine has no such network interface; set the name "
                                 "of one that `ip link` lists");
    if (rank == 0)
        std::printf("network: %s\n", options.interface.empty()
                                         ? ("the interface of " + options.host).c_str()
                                         : ("interface " + options.interface).c_str());
    return options;
}

// Throws RankFailure if a checkpoint does not fit the job. If the job trains an adapter, the
// checkpoint must hold an adapter; otherwise, it must hold a whole model.
void check_is_adapter(const fs::path& directory, bool adapts) {
    if (is_adapter(directory) == adapts) return;
    throw RankFailure(2, directory.string() +
                             (adapts ? " contains a whole model, but this job has train.lora; "
                                       "start a new job with model.from set to that directory"
                                     : " contains an adapter, but this job has no train.lora; set "
                                       "train.lora as in the job that wrote the checkpoint"));
}

// Returns the output directories of the jobs from which this job may continue.
std::vector<fs::path> earlier_outputs(const protocol::Launch& launch) {
    std::vector<fs::path> outputs;
    for (const fs::path& checkpoint : candidates_of(launch))
        outputs.push_back(output_of(checkpoint));
    return outputs;
}

// Returns the layout of the job's MCA files; empty for torch_dist, whose files need no layout.
formats::McaLayout checkpoint_layout(const spec::TrainSpec& spec, const spec::ModelConfig& config,
                                     const plan::PipelineSchedule& schedule) {
    if (spec.checkpoint_format == spec::CheckpointFormat::TorchDist) return {};
    return mca_layout_of(spec.parallel, config, schedule);
}

}  // namespace

Trainer::Trainer(const protocol::Launch& launch, int rank, WorkerLink& link, TrainingData data,
                 Backend backend)
    : launch_(launch),
      rank_(rank),
      link_(link),
      backend_(std::move(backend)),
      spec_(std::move(data.spec)),
      record_(job_record(launch, spec_)),
      model_(std::move(data.model)),
      corpus_(std::move(data.corpus)),
      valid_(std::move(data.valid)),
      tasks_(std::move(data.tasks)),
      learned_(data.learned),
      sampler_(job_sampler(corpus_, spec_)),
      validation_(spec_, corpus_, valid_),
      pipeline_(job_pipeline(spec_, model_.config, !launch.gpus.empty())),
      hooks_(launch, rank),
      steering_{.stop_step = launch.stop_step} {
    connect();
    TrainOptions options = train_options(spec_, model_.config);
    options.init.device = backend_.device;
    options.recompute = pipeline_.recompute;
    options.init.state_memory = offload_memory(spec_, launch_, rank_, backend_);
    const auto at_phase = [this](spec::FaultPhase phase) {
        inject_faults(spec_.faults, rank_, state_.step + 1, phase, *step_);
    };
    const Groups groups{*pp_,    *dp_,     tie_.get(),   tp_.get(),
                        &clock_, at_phase, world_.get(), cp_.get()};
    step_.emplace(model_.config, pipeline_.schedule, groups, options);
    offload_activations(spec_, pipeline_, launch_, rank_, backend_, *step_);
    const std::vector<ParameterSpec> specs = specs_of(step_->whole());
    const std::int64_t frozen = count_frozen(spec_.model.freeze, specs);
    check_groups(spec_.optimizer, specs);
    if (frozen > 0 && writes())
        std::printf("%lld of %lld parameters are frozen\n", static_cast<long long>(frozen),
                    static_cast<long long>(numel(specs)));
    untrained_ = untrained_of(spec_, model_.config);
    state_ = first_state(spec_, corpus_.train_tokens());
    state_.loss_scale = first_loss_scale(spec_);
    state_.data = std::move(data.identity);
    find_references(data);
    restore_newest();
    recall_left_out();
    find_teacher_values(data);
    judge_.check(metrics());
    const auto judged = [](const spec::MetricSpec& metric) {
        return checkpoint::Best{.metric = metric.name, .higher = metric.higher};
    };
    use_metrics(state_, judged(spec_.best), judged(spec_.early_stop.metric));
    const bool is_dist = spec_.checkpoint_format == spec::CheckpointFormat::TorchDist;
    const formats::McaLayout layout = checkpoint_layout(spec_, model_.config, pipeline_.schedule);
    part_.emplace(
        *step_, model_,
        is_dist ? plan_dist_part(*step_, model_.native, rank_) : plan_part(*step_, layout, rank_),
        rank_, spec_.checkpoint_buffer_mib << 20);
    std::optional<formats::DcpMetadata> dist;
    if (is_dist) dist = dist_metadata(part_->plan(), *world_);
    const std::uint64_t bytes = checkpoint_bytes(dist);
    if (writes()) open_outputs(bytes, std::move(dist));
    link_.report(protocol::Ready{});
}

// Returns the data files of pairs or labelled answers, with the windows that the job uses for
// training or holds out.
std::vector<ReferenceFile> Trainer::reference_files(const std::vector<std::string>& hashes) const {
    std::vector<ReferenceFile> files;
    std::map<const data::CorpusFile*, std::size_t> index;
    const auto add = [&](const data::Corpus& corpus) {
        for (const data::CorpusFile& file : corpus.files()) {
            index[&file] = files.size();
            files.push_back({&file, hashes[files.size()], {}});
        }
    };
    add(corpus_);
    for (const data::Corpus& corpus : valid_) add(corpus);
    // Count one batch more than the steps need. If a job continues with another batch size, its
    // last batch may end after the last sample of the steps.
    const auto samples = static_cast<std::uint64_t>((spec_.steps + 1) * spec_.global_batch_size);
    // If the data files have weights, the sampler may draw a pair again before it has drawn all
    // pairs. List each pair only once.
    std::set<std::pair<const data::CorpusFile*, std::size_t>> seen;
    const bool blends = !spec_.data.phases.empty();
    for (std::uint64_t i = 0; i < (blends ? samples : std::min(samples, sampler_.windows())); ++i) {
        const data::Window window = sampler_.sample(i);
        if (blends && !seen.emplace(window.file, window.pair).second) continue;
        files[index.at(window.file)].windows.push_back(window);
    }
    for (const data::Window& window : validation_.windows())
        files[index.at(window.file)].windows.push_back(window);
    return files;
}

// Gets the log-probabilities of the answers under the reference model. Runs before a checkpoint is
// restored.
void Trainer::find_references(const TrainingData& data) {
    if (spec_.objective != spec::Objective::Preference || !spec_.preference.has_reference()) return;
    const auto stops = [this](std::int64_t done, std::int64_t pairs) {
        if (writes())
            link_.report(protocol::Progress{
                Json{{"phase", "reference"}, {"pairs", done}, {"pairs_total", pairs}}.dump()});
        return link_.is_stopped();
    };
    references_ = measure_references({.spec = spec_,
                                      .step = *step_,
                                      .world = *world_,
                                      .vocab = model_.config.vocab,
                                      .output = launch_.output,
                                      .earlier = earlier_outputs(launch_),
                                      .directory = data.tokens,
                                      .load =
                                          [this](const auto& model) {
                                              load_model(model);
                                              if (spec_.preference.reference.empty())
                                                  start_from_adapter(*step_, model_);
                                          },
                                      .stops = stops},
                                     reference_files(data.hashes));
    stopped_ = !references_;
}

// Gets the teacher's values for the samples that are left to train and for the held-out windows.
void Trainer::find_teacher_values(const TrainingData& data) {
    if (!spec_.loss.has_teacher() || stopped_) return;
    const auto stops = [this](std::int64_t done, std::int64_t windows) {
        if (writes())
            link_.report(protocol::Progress{
                Json{{"phase", "teacher"}, {"windows", done}, {"windows_total", windows}}.dump()});
        return link_.is_stopped();
    };
    const std::vector<data::Window> held_out = validation_.windows();
    const std::int64_t first = state_.samples;
    std::int64_t end = first;
    for (std::int64_t step = state_.step; step < spec_.steps; ++step)
        end += spec::batch_size_at(spec_.batch_sizes(), end);
    const auto at = [&](std::int64_t i) {
        return i < end - first ? sampler_.sample(static_cast<std::uint64_t>(first + i))
                               : held_out[static_cast<std::size_t>(i - (end - first))];
    };
    teacher_ = measure_teacher(
        {.spec = spec_,
         .model = model_,
         .groups = step_->groups(),
         .world = *world_,
         .device = backend_.device,
         .output = launch_.output,
         .earlier = earlier_outputs(launch_),
         .directory = data.tokens,
         .tokens = data.hashes,
         .attempt = std::to_string(launch_.attempt.job.value) + "-" + to_hex(hash64(launch_.nonce)),
         .stops = stops},
        {.count = end - first + std::ssize(held_out), .at = at});
    stopped_ = !teacher_;
}

void Trainer::load_model(const std::string& directory) {
    if (loaded_ == directory) return;
    // A job may name another model as its reference. That model gets no adapters.
    const bool is_given = directory == spec_.model.from;
    check_given(directory, is_given && spec_.model.optimizer, *world_);
    loaded_how_ = load_weights(directory, *step_, spec_.seed,
                               is_given ? spec_.model.adapters : std::vector<std::string>());
    loaded_ = directory;
}

// Connects to the store that all ranks share, and starts to record transfers. If a transfer does
// not end, each rank reports the reason after at most half of the transfer's timeout. By then,
// every rank has published its transfers several times. Therefore, the explanation does not depend
// on which rank ends first, and roll-worker has the explanation before it stops the attempt as
// hung.
void Trainer::connect_recorder() {
    const std::chrono::milliseconds timeout = spec_.parallel.collective_timeout;
    fabric_.emplace(fabric_options(launch_, rank_, timeout));
    const auto on_stuck = [this](const std::string& why) { tell_stuck(why); };
    recorder_ = std::make_unique<FlightRecorder>(
        fabric_->board(), RecorderOptions{.rank = rank_,
                                          .ranks = launch_.world_size(),
                                          .period = std::min(timeout / 16, kPublishedMost),
                                          .patience = std::min(timeout / 2, kPatienceMost),
                                          .keeps_first = rank_ == 1,
                                          .on_stuck = on_stuck});
}

// Connects the groups of the mesh. All ranks create the groups in the same order, so no two ranks
// wait for each other in different groups.
void Trainer::connect() {
    const int world = launch_.world_size();
    const plan::Mesh mesh = need(plan::Mesh::make(spec_.parallel, world));
    const plan::Place place = mesh.place(rank_);
    const std::vector<int> stages = mesh.group(rank_, plan::Axis::Pp);
    if (world > 1) connect_recorder();
    const auto alone = [&] { return std::make_unique<LocalCommunicator>(alone_, 0); };
    const auto timed = [&](std::unique_ptr<Communicator> group, Phase phase) {
        return std::make_unique<TimedCommunicator>(std::move(group), clock_, phase);
    };
    const auto watched = [&](std::unique_ptr<Communicator> group, const std::string& name,
                             const std::vector<int>& ranks) {
        return std::make_unique<WatchedCommunicator>(std::move(group), name, ranks, *recorder_);
    };
    const auto connected = [&](const std::string& name,
                               const std::vector<int>& ranks) -> std::unique_ptr<Communicator> {
        if (!fabric_) return alone();
        return watched(backend_.group(*fabric_, name, ranks), name, ranks);
    };
    const std::vector<int> shards = mesh.group(rank_, plan::Axis::Tp);
    const std::string shard = shards.size() > 1 ? " of shard " + std::to_string(place.tp) : "";
    const int number = place.dp * spec_.parallel.cp + place.cp;
    const std::string replica = " of replica " + std::to_string(number);
    const std::string stage = " of stage " + std::to_string(place.pp);
    dp_ = timed(connected((stages.size() > 1 ? "dp" + stage : "dp") + shard, mesh.replicas(rank_)),
                Phase::Dp);
    pp_ = alone();
    if (stages.size() > 1) pp_ = timed(connected("pp" + replica + shard, stages), Phase::Pp);
    tp_ = alone();
    if (shards.size() > 1) tp_ = timed(connected("tp" + replica + stage, shards), Phase::Tp);
    const std::string of_cp = "cp " + std::to_string(place.dp) + stage + shard;
    if (spec_.parallel.cp > 1)
        cp_ = timed(connected(of_cp, mesh.group(rank_, plan::Axis::Cp)), Phase::Cp);
    const bool at_end = rank_ == stages.front() || rank_ == stages.back();
    if (model_.config.tied && stages.size() > 1 && at_end)
        tie_ = timed(connected("tied embedding" + replica + shard, {stages.front(), stages.back()}),
                     Phase::Pp);
    std::vector<int> everyone;
    for (int rank = 0; rank < world; ++rank) everyone.push_back(rank);
    world_ = alone();
    if (fabric_) world_ = watched(fabric_->group("world", everyone), "world", everyone);
}

void Trainer::start_from_given() {
    const std::string& from = spec_.model.from;
    if (from.empty()) return;
    load_model(from);
    if (writes())
        std::printf("starting from the weights in %s (%s)\n", from.c_str(), loaded_how_.c_str());
    if (!spec_.model.optimizer) return;
    // Begin at the step of the checkpoint. Count the samples of the earlier steps with this job's
    // batch size.
    state_.step = continue_optimizer(from, *step_);
    if (state_.step > spec_.steps)
        throw RankFailure(2, "train.steps: " + std::to_string(spec_.steps) + " is less than step " +
                                 std::to_string(state_.step) + " of the optimizer state in " +
                                 from + " that the job continues; set more steps");
    state_.samples = spec::samples_before(spec_.batch_sizes(), state_.step);
    state_.tokens = state_.samples * spec_.seq_length;
    if (writes())
        std::printf("continuing the optimizer at step %lld from %s\n",
                    static_cast<long long>(state_.step), from.c_str());
}

// Verifies a checkpoint. Each rank reads a part of its bytes, and all ranks get the same result.
Result<checkpoint::Manifest> Trainer::verify_shared(const fs::path& directory) {
    auto manifest = checkpoint::verify(directory, {rank_, world_->size()});
    const Result<void> own =
        manifest ? Result<void>() : Result<void>(tl::unexpected(manifest.error()));
    if (const auto bad = first_error(*world_, own)) return tl::unexpected(bad->error);
    return manifest;
}

// Restores the newest good checkpoint. All ranks together verify checkpoints and choose this one.
void Trainer::restore_newest() {
    const std::vector<fs::path> candidates = candidates_of(launch_);
    if (candidates.empty()) {
        if (launch_.kind == "resume")
            throw RankFailure(2, "there is no recorded checkpoint to resume from");
        start_from_given();
        if (start_from_adapter(*step_, model_) && writes())
            std::printf("starting from the adapter in %s\n", spec_.lora.from.c_str());
        return;
    }
    choice_ = choose_sound(candidates, [&](const auto& one) { return verify_shared(one); });
    if (writes())
        for (const std::string& reason : choice_.reasons) std::printf("%s\n", reason.c_str());
    if (!choice_.directory && std::ranges::any_of(candidates, is_poisoned))
        throw RankFailure(
            writes() ? protocol::kExitDiverged : protocol::kExitPeerLost,
            "no checkpoint is left from before the loss began to rise; keep more checkpoints "
            "(checkpoint.keep, checkpoint.keep_every), or train with a lower train.optimizer.lr");
    if (!choice_.directory)
        throw RankFailure(1, "no recorded checkpoint passes verification (checked: " +
                                 std::to_string(candidates.size()) +
                                 "); the newest checkpoint: " + choice_.reasons.front() +
                                 "; restore a copy of a checkpoint, or submit the job again to "
                                 "start it from the beginning");
    const fs::path& directory = *choice_.directory;
    const bool adapts = model_.config.lora.is_set();
    check_is_adapter(directory, adapts);
    if (adapts) {
        start_from_given();
    } else {
        const std::string warning = check_same_model(directory, model_, spec_.tokenizer);
        if (!warning.empty()) model_.warnings.push_back(warning);
    }
    const checkpoint::State restored = restore(directory, *step_, model_);
    check_continues(restored, state_, directory);
    const bool fixed =
        spec_.data.order == spec::SampleOrder::Megatron || spec_.data.phases.size() > 1;
    if (fixed && restored.samples != restored.step * spec_.global_batch_size)
        throw RankFailure(2, "train.global_batch_size: " + std::to_string(spec_.global_batch_size) +
                                 " is not the value in roll/job.json of " + directory.string() +
                                 ", but data.order megatron and data.curriculum depend on this "
                                 "value; set the value of roll/job.json");
    if (spec_.epochs > 0) {  // another global_batch_size changes the number of steps that are left
        set_steps_of_epochs(spec_, corpus_, {restored.step, restored.samples});
        record_ = job_record(launch_, spec_);
    }
    if (restored.step > spec_.steps)
        throw RankFailure(2, "train.steps: " + std::to_string(spec_.steps) + " is less than step " +
                                 std::to_string(restored.step) + " of the checkpoint " +
                                 directory.string() +
                                 " from which the job continues; set more steps, or resume from "
                                 "an earlier checkpoint");
    state_ = continued(restored, state_);
    // If the checkpoint is of another job, restart the count of validations without improvement. A
    // user who resumes a job that stopped early wants training to continue.
    if (output_of(directory).lexically_normal() != fs::path(launch_.output).lexically_normal())
        state_.stale_validations = 0;
    if (writes())
        std::printf("resumed at step %lld from %s\n", static_cast<long long>(state_.step),
                    directory.c_str());
    if (!writes()) return;
    for (const std::string& line : differences(directory, record_, state_.step))
        std::printf("%s\n", line.c_str());
    if (state_.step == spec_.steps)
        std::printf("all %lld steps of train.steps are done: nothing is left to train\n",
                    static_cast<long long>(spec_.steps));
}

// Adds the samples that only OUTPUT/left_out.json lists. An earlier attempt, or the job that this
// job resumes, found these samples after its last checkpoint. Training leaves these samples out.
void Trainer::recall_left_out() {
    if (writes()) {
        join(state_.left_out, read_left_out(launch_.output, state_));
        if (choice_.directory)
            join(state_.left_out, read_left_out(output_of(*choice_.directory), state_));
    }
    share(state_.left_out, *world_);
    if (writes() && !state_.left_out.empty())
        std::printf(
            "left out: samples %s, because the loss or the gradient of their step was not finite "
            "or too high\n",
            ranges_text(state_.left_out).c_str());
}

void Trainer::open_outputs(std::uint64_t checkpoint_bytes,
                           std::optional<formats::DcpMetadata> dist) {
    const fs::path output = launch_.output;
    SaverOptions options{
        .checkpoints = output / "checkpoints",
        .writer = launch_.attempt.token,
        .retention = retention_of(spec_),
        .recorded = recorded_of(launch_, choice_),
        .bytes = checkpoint_bytes,
        .ranks = world_->size(),
        .layout = checkpoint_layout(spec_, model_.config, pipeline_.schedule),
        .read_back_first = spec_.checkpoint_first_step && state_.step == 0,
        .dist = std::move(dist),
    };
    if (spec_.checkpoint_keep_best && state_.best.value)
        options.retention.best_step =
            recorded_best(options.checkpoints, options.recorded, state_.best_step);
    fs::path earlier;
    if (choice_.directory) {
        const fs::path& from = *choice_.directory;
        const fs::path job = output_of(from);
        if (job.lexically_normal() == output.lexically_normal())
            options.retention.resumed_from = choice_.manifest.name;
        else
            earlier = job / "metrics.jsonl";
    }
    need(make_directories(options.checkpoints));
    need(write_file_atomically(output / "job.json", record_));
    saver_.emplace(std::move(options), model_, link_);
    std::vector<std::string> tasks;
    for (const Task& task : tasks_) tasks.push_back(task.name);
    metrics_.emplace(MetricsOptions{
        output, earlier, state_.step,
        metrics_head(spec_, model_.config, corpus_, learned_, pipeline_.schedule.name),
        spec_.metrics, validation_.names(), objective_keys(spec_), tasks});
    for (const auto& [step, loss] : metrics_->losses()) guard_.note_loss(step, loss);
    std::printf("%s\n", headline(spec_, model_.config, corpus_, pipeline_.schedule.name).c_str());
    if (!pipeline_.recompute.empty())
        std::printf("recompute: %s\n", plan::recomputed_text(pipeline_.recompute).c_str());
    if (learned_.documents > 0) std::printf("%s\n", documents_line(learned_, spec_).c_str());
    std::vector<std::string> warnings = model_.warnings;
    for (std::string& warning : warnings_of(spec_, corpus_, learned_))
        warnings.push_back(std::move(warning));
    for (const std::string& warning : warnings) std::printf("warning: %s\n", warning.c_str());
}

}  // namespace roll::train
