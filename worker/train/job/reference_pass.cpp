#include "worker/train/job/reference_pass.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "common/hash.hpp"
#include "common/json.hpp"
#include "worker/train/data/batches.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Number of micro-batches that a replica evaluates at a time.
constexpr std::int64_t kMicrobatchesAtOnce = 16;
constexpr auto kStoredEvery = std::chrono::seconds(30);

bool writes(const ReferencePass& pass) { return pass.world.rank() == 0; }

std::string model_of(const ReferencePass& pass) {
    const std::string& given = pass.spec.preference.reference;
    return given.empty() ? pass.spec.model.from : given;
}

// Returns true if the adapter from which training starts is part of the reference model.
bool has_adapter(const spec::TrainSpec& spec) {
    return spec.preference.reference.empty() && !spec.lora.from.empty();
}

// Returns a text that identifies the weights that pass.load(model) loads. The text depends on the
// files of the model, the adapters that are merged into model.from, the adapter from which training
// starts, and the packed format of the frozen weights.
std::string identity_of(const ReferencePass& pass, const std::string& model) {
    const spec::TrainSpec& spec = pass.spec;
    std::string identity = need(model_identity(model));
    Json changes = Json::array();
    if (model == spec.model.from)
        for (const std::string& adapter : spec.model.adapters)
            changes.push_back(need(model_identity(adapter)));
    if (has_adapter(spec)) changes.push_back({{"adapter", need(model_identity(spec.lora.from))}});
    if (spec.lora.is_set() && spec.lora.base != spec::LoraBase::Full)
        changes.push_back({name_of(spec.lora.base), spec.lora.double_quantization});
    if (changes.empty()) return identity;
    return to_hex(hash64(Json{identity, changes}.dump()));
}

// Returns the job's reference model. A continued job keeps the reference model of its first start.
ReferenceRecord record_of(const ReferencePass& pass) {
    for (const fs::path& output : pass.earlier)
        if (auto record = read_reference(output)) return *record;
    const std::string model = model_of(pass);
    return {model, identity_of(pass, model)};
}

// Returns the path of the file with the log-probabilities of a data file's pairs.
fs::path path_of(const ReferencePass& pass, const ReferenceRecord& record,
                 const ReferenceFile& file) {
    const spec::TrainSpec& spec = pass.spec;
    const std::int64_t seed = spec.model.vocab > 0 ? static_cast<std::int64_t>(spec.seed) : 0;
    Json key = {{"tokens", file.hash},           {"model", record.identity},
                {"vocab", pass.vocab},           {"seed", seed},
                {"seq_length", spec.seq_length}, {"precision", static_cast<int>(spec.precision)}};
    if (spec.data.labels) key["mismatched"] = spec.preference.estimates_kl();
    if (spec.data.truncate != spec::Truncation::End) key["truncate"] = name_of(spec.data.truncate);
    return pass.directory / ("reference-" + to_hex(hash64(key.dump())));
}

std::size_t pairs_of(const data::CorpusFile& file) { return file.file.documents() / 2; }

// Returns a tensor that shares the memory of a file's values.
at::Tensor tensor_of(PairValues& values) {
    return at::from_blob(values.data(), {std::ssize(values), 2}, at::kDouble);
}

// Reads the stored values on rank 0, and sends them to all ranks.
PairReferences stored(const ReferencePass& pass, const std::vector<ReferenceFile>& files,
                      const std::vector<fs::path>& paths) {
    PairReferences references;
    for (std::size_t i = 0; i < files.size(); ++i) {
        const data::CorpusFile& file = *files[i].file;
        references.add(file, pairs_of(file));
        PairValues& values = references.values(file);
        if (writes(pass))
            if (auto found = read_values(paths[i], values.size())) values = *std::move(found);
        broadcast_from(0, pass.world, tensor_of(values), {Site::Agreement});
    }
    return references;
}

// Stores the log-probabilities of the answers of all files.
void store(const ReferencePass& pass, const std::vector<ReferenceFile>& files,
           const std::vector<fs::path>& paths, PairReferences& references) {
    if (!writes(pass)) return;
    for (std::size_t i = 0; i < files.size(); ++i)
        need(write_values(paths[i], references.values(*files[i].file)));
}

bool told_to_stop(const ReferencePass& pass, std::int64_t done, std::int64_t pairs) {
    const at::Tensor votes = at::full({}, pass.stops(done, pairs) ? 1.0 : 0.0, at::kDouble);
    sum_over(pass.world, votes, {Site::Agreement});
    return votes.item<double>() > 0;
}

// Copies the log-probabilities of this replica's answers to `values_P2`, which has one row for each
// pair or labelled answer. For a pair, copies the log-probabilities of both answers to the pair's
// row. For a labelled answer, copies one log-probability to column `column` of the answer's row.
void copy_values(const ReferencePass& pass, std::span<const Microbatch> batch,
                 const at::Tensor& log_probs_KS, std::int64_t column, const at::Tensor& values_P2) {
    const Communicator& dp = pass.step.groups().dp;
    const spec::TrainSpec& spec = pass.spec;
    for (std::int64_t k = 0; k < std::ssize(batch); ++k) {
        const std::int64_t first = (k * dp.size() + dp.rank()) * spec.micro_batch_size;
        const std::int64_t samples =
            samples_in(spec.preference, batch[static_cast<std::size_t>(k)]);
        if (spec.data.labels)
            values_P2.select(1, column)
                .narrow(0, first, samples)
                .copy_(log_probs_KS[k].narrow(0, 0, samples));
        else
            values_P2.narrow(0, first, samples)
                .copy_(log_probs_KS[k].narrow(0, 0, 2 * samples).view({samples, 2}));
    }
}

// Computes the log-probabilities of the answers in some windows under the reference model, and adds
// them to `references`. Each replica computes a part of the windows.
void compute(const ReferencePass& pass, std::span<const data::Window> windows,
             PairReferences& references) {
    Communicator& dp = pass.step.groups().dp;
    const std::vector<Microbatch> batch =
        valid_batches(windows, pass.spec, {.vocab = pass.vocab}, dp.rank());
    const at::Tensor values_P2 = at::zeros({std::ssize(windows), 2}, at::kDouble);
    copy_values(pass, batch, pass.step.log_probs(batch), 0, values_P2);
    if (pass.spec.data.labels && pass.spec.preference.estimates_kl()) {
        std::vector<Microbatch> mismatched;
        for (const Microbatch& data : batch) mismatched.push_back(data.mismatched.at(0));
        copy_values(pass, batch, pass.step.log_probs(mismatched), 1, values_P2);
    }
    sum_over(dp, values_P2, {Site::Evaluation});
    const auto* value = values_P2.const_data_ptr<double>();
    for (std::size_t i = 0; i < windows.size(); ++i)
        references.set(windows[i], {value[2 * i], value[2 * i + 1]});
}

// Loads the weights of the reference model. The model must not have changed since the job's first
// start. The new adapter of a LoRA job has no effect at this time, because its factors B are 0.
void load_reference(const ReferencePass& pass, const ReferenceRecord& record) {
    if (writes(pass) && identity_of(pass, record.model) != record.identity)
        throw RankFailure(2, "the reference model " + record.model +
                                 " has changed since the job started; restore its files, or start "
                                 "a new job");
    pass.load(record.model);
    if (has_adapter(pass.spec)) return;
    for (Chunk& chunk : pass.step.chunks()) {
        const Parameters& p = chunk.parameters();
        for (std::size_t i = 0; i < p.specs.size(); ++i)
            if (p.specs[i].name.find(".lora_B.") != std::string::npos)
                ROLL_CHECK(p.weight[i].count_nonzero().item<std::int64_t>() == 0);
    }
}

}  // namespace

std::optional<PairReferences> measure_references(const ReferencePass& pass,
                                                 const std::vector<ReferenceFile>& files) {
    ReferenceRecord record{model_of(pass), ""};
    std::vector<fs::path> paths(files.size());
    if (writes(pass)) {
        record = record_of(pass);
        need(write_reference(pass.output, record));
        for (std::size_t i = 0; i < files.size(); ++i) paths[i] = path_of(pass, record, files[i]);
    }
    PairReferences references = stored(pass, files, paths);
    std::vector<data::Window> missing;
    std::int64_t pairs = 0;
    for (const ReferenceFile& file : files) {
        pairs += std::ssize(file.windows);
        std::ranges::copy_if(file.windows, std::back_inserter(missing),
                             [&](const data::Window& w) { return !references.is_known(w); });
    }
    if (!missing.empty()) load_reference(pass, record);
    const auto most = static_cast<std::size_t>(kMicrobatchesAtOnce * pass.spec.micro_batch_size *
                                               pass.step.groups().dp.size());
    const auto start = Clock::now();
    auto due = start + kStoredEvery;
    for (std::size_t at = 0; at < missing.size(); at += most) {
        if (told_to_stop(pass, static_cast<std::int64_t>(at), std::ssize(missing))) {
            store(pass, files, paths, references);
            return std::nullopt;
        }
        compute(pass, std::span(missing).subspan(at, std::min(most, missing.size() - at)),
                references);
        if (Clock::now() < due) continue;
        store(pass, files, paths, references);
        due = Clock::now() + kStoredEvery;
    }
    if (!missing.empty()) store(pass, files, paths, references);
    if (writes(pass))
        std::printf(
            "reference %s: log-probabilities of %lld %s, %lld of them computed in %.1f s "
            "and the others found in %s\n",
            record.model.c_str(), static_cast<long long>(pairs),
            pass.spec.data.labels ? "answers" : "pairs",
            static_cast<long long>(std::ssize(missing)),
            std::chrono::duration<double>(Clock::now() - start).count(), pass.directory.c_str());
    return references;
}

}  // namespace roll::train
