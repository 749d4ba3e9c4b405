#include "worker/train/prove/prove.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <ATen/ATen.h>

#include "worker/train/pipeline/job_schedule.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/process/launch.hpp"
#include "worker/train/prove/batches.hpp"
#include "worker/train/prove/local_job.hpp"

namespace roll::train {
namespace {

constexpr int kSteps = 3;
constexpr int kSavesAfter = 1;  // number of steps before the checkpoint
// Standard deviation of the weights. The deviation is large, so that norms, caps and activation
// functions work in their nonlinear range.
constexpr double kStd = 0.2;
constexpr double kLearningRate = 1e-3;

namespace fs = std::filesystem;

// A temporary directory. The destructor removes it.
class Scratch {
  public:
    Scratch() {
        const char* const given = std::getenv("TMPDIR");
        const fs::path parent = given != nullptr && *given != '\0' ? given : "/tmp";
        std::string pattern = (parent / "roll-prove-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr)
            throw RankFailure(1, "the directory " + pattern + " cannot be made: " +
                                     std::strerror(errno) + "; set TMPDIR to another directory");
        path_ = pattern;
    }
    ~Scratch() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    fs::path operator/(const char* name) const { return path_ / name; }

  private:
    fs::path path_;
};

// Returns the model of the small job, for checkpoints. Only sizes that shape a tensor are set.
ModelSetup small_model(const ModelSetup& model, const spec::ModelConfig& small) {
    ModelSetup setup = model;
    setup.config = small;
    setup.companions.clear();
    if (setup.native.is_null()) return setup;
    setup.native.update({{"hidden_size", small.hidden},
                         {"num_layers", small.layers},
                         {"num_attention_heads", small.heads},
                         {"num_query_groups", small.kv_heads},
                         {"kv_channels", small.head_dim},
                         {"ffn_hidden_size", small.intermediate},
                         {"padded_vocab_size", small.vocab}});
    if (small.experts == 0) return setup;
    setup.native.update({{"num_moe_experts", small.experts},
                         {"moe_ffn_hidden_size", small.intermediate},
                         {"moe_layer_freq", 1}});
    return setup;
}

// Returns the job in its layout. If the model has a native config, the job writes a checkpoint
// below `saves`.
LocalJob in_layout(const SmallJob& small, const ModelSetup& model, const fs::path& saves) {
    const spec::ParallelSpec& p = small.spec.parallel;
    const JobPipeline pipeline = job_pipeline(small.spec, small.config, /*on_gpu=*/false);
    LocalJob job{.config = small.config,
                 .schedule = pipeline.schedule,
                 .dp = p.dp,
                 .tp = p.tp,
                 .cp = p.cp,
                 .options = train_options(small.spec, small.config),
                 .steps = kSteps,
                 .lr = kLearningRate,
                 .batch = [&small](int step) {
                     return proof_batches(small.spec, small.config.vocab, step);
                 }};
    job.options.init.std = kStd;
    job.options.init.dtype = at::kDouble;
    job.options.init.draw = true;
    job.options.count_zeros = true;
    job.options.recompute = pipeline.recompute;
    job.model = &model;
    job.parallel = p;
    job.saves_after = model.native.is_null() ? 0 : kSavesAfter;
    job.saves_to = saves;
    return job;
}

// Returns the same job on one rank. This rank executes the micro-batches of all replicas.
LocalJob on_one_rank(LocalJob job) {
    job.schedule = plan::gpipe(1, 1, job.dp * job.schedule.microbatches);
    job.dp = job.tp = job.cp = 1;
    job.options.split = {};
    job.options.sequence = false;
    job.options.zero = 0;
    job.options.recompute = {};
    job.parallel = {};
    return job;
}

// Returns the job that continues from the checkpoint below `saved`.
LocalJob continued(LocalJob job, const fs::path& saved) {
    job.starts_from = local_checkpoint(saved);
    job.first_step = job.saves_after;
    job.saves_after = 0;
    return job;
}

// Returns the quantities of the steps from `step` on, and of the evaluation.
Named steps_from(const Named& all, int step) {
    Named later;
    for (const auto& [name, tensor] : all)
        if (name.starts_with("valid.") || std::stoi(name) >= step) later.emplace(name, tensor);
    return later;
}

// Trains the job on one rank. Lowers the clipping limit until the gradient norm exceeds this limit
// in every step. Sets `clip` to the limit.
Record reference_of(LocalJob job, double& clip) {
    constexpr int kTries = 6;
    for (int i = 0; i < kTries; ++i) {
        job.options.clip_grad = clip;
        Record record = train_locally(job);
        double least = INFINITY;
        for (int step = 0; step < kSteps; ++step)
            least = std::min(least,
                             record.values.at(std::to_string(step) + ".grad_norm").item<double>());
        if (least > clip) return record;
        if (!(least > 0)) break;
        clip = least / 4;
    }
    throw RankFailure(
        1,
        "the gradient of the reduced job on one rank is 0 or not finite, so there is nothing to "
        "compare; check model.freeze and the learning rate");
}

std::vector<std::string> parameter_names(const spec::ModelConfig& config) {
    std::vector<std::string> names;
    for (const ParameterSpec& parameter : parameter_specs(config, whole_chunk(config)))
        names.push_back(parameter.name);
    return names;
}

// Adds the comparison of a run to the proof. Does nothing if an earlier run differs.
void compare(Proof& proof, const char* run, const Record& seen, const Named& reference) {
    if (proof.differing > 0) return;
    const auto is_tensor = [&](const std::string& name) { return reference.at(name).dim() > 0; };
    for (const auto& [name, expected] : reference) {
        ++(is_tensor(name) ? proof.tensors : proof.numbers);
        const auto found = seen.values.find(name);
        if (found == seen.values.end()) continue;
        const double error = error_of(found->second, expected);
        if (proof.worst.name.empty() || error > proof.worst.error) proof.worst = {name, error};
    }
    const std::vector<Difference> all =
        differences(seen, reference, kProofLimit, parameter_names(proof.job.config));
    proof.differing = all.size();
    if (all.empty()) return;
    proof.first_run = run;
    proof.first = all.front();
    const auto tensor = std::ranges::find_if(
        all, [&](const Difference& difference) { return is_tensor(difference.name); });
    if (tensor != all.end()) proof.first_tensor = *tensor;
}

// Compares the run in the layout with the reference. Then compares the two runs that continue from
// the checkpoint of the other layout.
void compare_runs(Proof& proof, const LocalJob& layout, const LocalJob& one,
                  const Named& reference) {
    compare(proof, "layout", train_locally(layout), reference);
    if (!proof.checkpoints || proof.differing > 0) return;
    const Named later = steps_from(reference, layout.saves_after);
    compare(proof, "one rank, resumed from the layout's checkpoint,",
            train_locally(continued(one, layout.saves_to)), later);
    if (proof.differing == 0)
        compare(proof, "the layout, resumed from one rank's checkpoint,",
                train_locally(continued(layout, one.saves_to)), later);
}

}  // namespace

Proof prove(const spec::TrainSpec& spec, const ModelSetup& model,
            const std::vector<Plant>& plants) {
    const auto start = std::chrono::steady_clock::now();
    const spec::ModelConfig& config = model.config;
    Proof proof{.job =
                    cut_job(spec, config, job_pipeline(spec, config, /*on_gpu=*/false).schedule)};
    const SmallJob& small = proof.job;
    check_spec(small.spec);
    for (const ChunkSpec& chunk : stage_chunks(small.config, stage_split(small.spec.parallel)))
        proof.layers.push_back(chunk.layer_end - chunk.layer_begin);
    proof.steps = kSteps;
    proof.clip_grad = spec.optimizer.clip_grad > 0 ? spec.optimizer.clip_grad : 1;
    const ModelSetup setup = small_model(model, small.config);
    proof.checkpoints = !setup.native.is_null();
    const Scratch scratch;
    LocalJob layout = in_layout(small, setup, scratch / "layout");
    if (spec.optimizer.offload > 0) layout.options.init.state_memory = file_memory(scratch / ".");
    LocalJob one = on_one_rank(layout);
    one.saves_to = scratch / "one";
    if (spec.offloads_activations)
        layout.prepare = [&](TrainStep& step) {
            const auto store = file_store(scratch / ".", /*reserved=*/0, /*least=*/1);
            for (Chunk& chunk : step.chunks()) chunk.saved_room().use(store);
        };
    const Record reference = reference_of(one, proof.clip_grad);
    one.options.clip_grad = layout.options.clip_grad = proof.clip_grad;
    bool was_planted = plants.empty();
    layout.fabric.plants = plants;
    layout.fabric.on_plant = [&] { was_planted = true; };
    try {
        compare_runs(proof, layout, one, reference.values);
    } catch (const std::logic_error& e) {  // GroupFault or Deadlock: the ranks' calls do not match
        proof.fault = e.what();
    } catch (const PeerLost& e) {
        proof.fault = e.what();
    }
    if (!was_planted)
        throw RankFailure(1,
                          "the planted bug changed nothing, because the ranks of this layout "
                          "make no such transfer; plant another bug, or use another layout");
    proof.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return proof;
}

}  // namespace roll::train
