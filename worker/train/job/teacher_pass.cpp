#include "worker/train/job/teacher_pass.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <set>

#include <ATen/ATen.h>

#include "common/counted.hpp"
#include "common/hash.hpp"
#include "common/json.hpp"
#include "worker/plan/pipeline_schedule.hpp"
#include "worker/train/data/batches.hpp"
#include "worker/train/data/references.hpp"
#include "worker/train/model/load_weights.hpp"
#include "worker/train/model/teacher.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/save/check_given.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;
using Steady = std::chrono::steady_clock;

// Limits of one computation: the number of micro-batches per replica, and the size in bytes of the
// values of all replicas.
constexpr std::int64_t kMicrobatchesMost = 16, kBytesMost = 64 << 20;
constexpr auto kSyncedEvery = std::chrono::seconds(30);

bool is_writer(const TeacherPass& pass) { return pass.world.rank() == 0; }

// The teacher's layers of this rank's stage.
class Teacher {
  public:
    Teacher(const TeacherPass& pass, const ModelSetup& setup) : pass_(pass) {
        const int tp_rank = pass.groups.tp != nullptr ? pass.groups.tp->rank() : 0;
        const ChunkSpec part =
            teacher_chunk(setup.config, pass.spec.parallel, pass.groups.pp.rank(), tp_rank);
        const InitOptions init{.dtype = dtype_of(pass.spec.precision),
                               .device = pass.device,
                               .draw = false,
                               .gradients = false};
        Chunk& chunk = chunks_.emplace_back(setup.config, part, init, pass.groups.tp);
        Parameters* const parameters[] = {&chunk.parameters()};
        check_given(pass.spec.teacher.from, false, pass.world);
        how_ = load_weights(pass.spec.teacher.from, parameters,
                            parameter_specs(setup.config, whole_chunk(setup.config)));
    }

    const std::string& how() const { return how_; }

    // Returns the teacher's most probable tokens for the targets of each micro-batch, on all ranks
    // of the replica. The result has one row per micro-batch, with the values that
    // Chunk::top_tokens() returns: first the ids, then the log-probabilities. Zeros follow the last
    // value of a row.
    at::Tensor top_tokens(std::span<const Microbatch> batch) {
        const c10::InferenceMode no_autograd;
        std::vector<RankChunk> chunks;
        chunks.push_back({chunks_.front(), [](int) {}});
        StepTrace dropped;
        const std::int64_t rows = pass_.spec.micro_batch_size * pass_.spec.seq_length;
        const TopRule rule{pass_.spec.teacher.top_k, pass_.spec.loss.temperature};
        const at::Tensor values = execute(
            plan::forward_only(pass_.groups.pp.size(), 1, static_cast<int>(batch.size()), {}),
            chunks,
            {.microbatches = batch,
             .returned = Returned::TopTokens,
             .numbers = 2 * rows * rule.count,
             .top = rule},
            pass_.groups.pp, dropped);
        sum_over(pass_.groups.pp, values, {Site::Evaluation});
        return values;
    }

  private:
    const TeacherPass& pass_;
    std::deque<Chunk> chunks_;  // one chunk; a deque, because a chunk cannot be moved
    std::string how_;
};

// Records the teacher in the job's output directory. `computes`: some values must still be
// computed. In that case, first throws RankFailure if the teacher's files have changed since the
// start of this job or since the start of the job that this job continues.
void check_unchanged(const TeacherPass& pass, const std::string& identity, bool computes) {
    if (!is_writer(pass)) return;
    const std::string& teacher = pass.spec.teacher.from;
    for (const fs::path& output : pass.earlier) {
        const auto record = read_reference(output);
        if (!record || record->model != teacher) continue;
        if (computes && record->identity != identity)
            throw RankFailure(2, "the teacher " + teacher +
                                     " has changed since the job started; restore its files, or "
                                     "start a new job");
        break;
    }
    need(write_reference(pass.output, {teacher, identity}));
}

// Returns the directory of the files with the teacher's values; all ranks get the same result. The
// directory's name has a hash of everything on which the values depend, except the windows. Only
// rank 0 knows the hashes of the tokens, and `identity`, the identity of the teacher's files.
fs::path directory_of(const TeacherPass& pass, const std::string& identity) {
    const spec::TrainSpec& spec = pass.spec;
    const Json key = {{"tokens", pass.tokens},
                      {"teacher", identity},
                      {"tokenizer", pass.model.tokenizer->identity},
                      {"top_k", spec.teacher.top_k},
                      {"temperature", spec.loss.temperature},
                      {"apart", spec.data.documents_apart},
                      {"seq_length", spec.seq_length},
                      {"precision", static_cast<int>(spec.precision)}};
    const at::Tensor hash =
        at::full({1}, static_cast<std::int64_t>(hash64(key.dump())), at::TensorOptions(at::kLong));
    broadcast_from(0, pass.world, hash, {Site::Agreement});
    return pass.directory /
           ("teacher-" + to_hex(static_cast<std::uint64_t>(hash[0].item<std::int64_t>())));
}

// Returns the indices of the windows for which the teacher's values must be computed, because they
// are not stored. Lists equal windows only once. All ranks get the same list.
std::vector<std::int64_t> missing_of(const TeacherPass& pass, const TeacherWindows& windows,
                                     const TeacherValuesFiles& files) {
    const at::Tensor missing = at::zeros({windows.count}, at::kLong);
    if (is_writer(pass)) {
        std::set<std::uint64_t> seen;
        auto* flags = missing.data_ptr<std::int64_t>();
        for (std::int64_t i = 0; i < windows.count; ++i) {
            const data::Window window = windows.at(i);
            if (targets_of(window, pass.spec) == 0) continue;
            const std::uint64_t key = teacher_key(window, pass.spec);
            if (!files.has(key) && seen.insert(key).second) flags[i] = 1;
        }
    }
    broadcast_from(0, pass.world, missing, {Site::Agreement});
    std::vector<std::int64_t> indices;
    const auto* flags = missing.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < windows.count; ++i)
        if (flags[i] != 0) indices.push_back(i);
    return indices;
}

// Returns the number of windows that are computed at a time.
std::int64_t windows_at_once(const TeacherPass& pass) {
    const spec::TrainSpec& spec = pass.spec;
    const std::int64_t windows = spec.micro_batch_size * pass.groups.dp.size();
    const std::int64_t bytes =
        windows * spec.seq_length * spec.teacher.top_k * 2 * std::int64_t{sizeof(double)};
    return windows * std::clamp<std::int64_t>(kBytesMost / bytes, 1, kMicrobatchesMost);
}

// Computes and stores the teacher's values for the targets of some windows. Each replica computes a
// part of the windows.
void compute_some(const TeacherPass& pass, std::span<const data::Window> windows, Teacher& teacher,
                  TeacherValuesWriter& writer) {
    Communicator& dp = pass.groups.dp;
    spec::TrainSpec spec = pass.spec;
    spec.parallel.dp = dp.size();  // here, each rank of a cp group counts as a replica
    const std::int64_t top_k = spec.teacher.top_k;
    const std::vector<Microbatch> batch =
        valid_batches(windows, spec, {.vocab = pass.model.config.vocab}, dp.rank());
    const at::Tensor values_KN = teacher.top_tokens(batch);
    // The ids and the log-probabilities of each window's targets
    const at::Tensor all_W2TK =
        at::zeros({std::ssize(windows), 2, spec.seq_length, top_k}, at::kDouble);
    const auto count_of = [&](std::int64_t window) {
        return targets_of(windows[static_cast<std::size_t>(window)], spec);
    };
    for (std::int64_t k = 0; k < std::ssize(batch); ++k) {
        const std::int64_t first = (k * dp.size() + dp.rank()) * spec.micro_batch_size;
        const std::int64_t last = std::min(first + spec.micro_batch_size, std::ssize(windows));
        std::int64_t targets = 0;
        for (std::int64_t window = first; window < last; ++window) targets += count_of(window);
        const at::Tensor own_2NK =
            values_KN[k].narrow(0, 0, 2 * targets * top_k).view({2, targets, top_k});
        std::int64_t begin = 0;
        for (std::int64_t window = first; window < last; begin += count_of(window++))
            all_W2TK[window]
                .narrow(1, 0, count_of(window))
                .copy_(own_2NK.narrow(1, begin, count_of(window)));
    }
    sum_over(dp, all_W2TK, {Site::Evaluation});
    if (!is_writer(pass)) return;
    for (std::int64_t window = 0; window < std::ssize(windows); ++window) {
        const at::Tensor of_window = all_W2TK[window].narrow(1, 0, count_of(window));
        need(writer.append(teacher_key(windows[static_cast<std::size_t>(window)], spec),
                           of_window[0], of_window[1]));
    }
}

bool is_told_to_stop(const TeacherPass& pass, std::int64_t done, std::int64_t windows) {
    const at::Tensor votes = at::full({}, pass.stops(done, windows) ? 1.0 : 0.0, at::kDouble);
    sum_over(pass.world, votes, {Site::Agreement});
    return votes.item<double>() > 0;
}

// Computes and stores the teacher's values for the targets of all windows in a list. Returns false
// if a rank was told to stop.
bool compute_all(const TeacherPass& pass, const TeacherWindows& windows, const ModelSetup& setup,
                 std::span<const std::int64_t> missing, const fs::path& directory) {
    Teacher teacher(pass, setup);
    if (is_writer(pass))
        std::printf("teacher %s (%s): computing its predictions for %s\n",
                    pass.spec.teacher.from.c_str(), teacher.how().c_str(),
                    counted(missing.size(), "window").c_str());
    TeacherValuesWriter writer(directory / pass.attempt);
    const auto most = static_cast<std::size_t>(windows_at_once(pass));
    auto due = Steady::now() + kSyncedEvery;
    for (std::size_t at = 0; at < missing.size(); at += most) {
        if (is_told_to_stop(pass, static_cast<std::int64_t>(at), std::ssize(missing))) {
            need(writer.sync());
            return false;
        }
        std::vector<data::Window> some;
        for (const std::int64_t i : missing.subspan(at, std::min(most, missing.size() - at)))
            some.push_back(windows.at(i));
        compute_some(pass, some, teacher, writer);
        if (Steady::now() < due) continue;
        need(writer.sync());
        due = Steady::now() + kSyncedEvery;
    }
    need(writer.sync());
    return true;
}

}  // namespace

std::optional<TeacherValuesFiles> measure_teacher(const TeacherPass& pass,
                                                  const TeacherWindows& windows) {
    const auto start = Steady::now();
    const ModelSetup setup = setup_teacher(pass.spec, pass.model);
    const std::string identity =
        is_writer(pass) ? need(model_identity(pass.spec.teacher.from)) : std::string();
    const fs::path directory = directory_of(pass, identity);
    const auto open = [&](bool verify) {
        return need(TeacherValuesFiles::open(directory, pass.spec.teacher.top_k, verify));
    };
    TeacherValuesFiles files = open(is_writer(pass));
    const std::vector<std::int64_t> missing = missing_of(pass, windows, files);
    check_unchanged(pass, identity, !missing.empty());
    if (!missing.empty()) {
        if (!compute_all(pass, windows, setup, missing, directory)) return std::nullopt;
        barrier(pass.world);  // wait until every rank has stored its values
        files = open(false);
    }
    if (is_writer(pass))
        std::printf(
            "teacher %s: predictions for %s, %lld of them computed in %.1f s and the "
            "others found in %s\n",
            pass.spec.teacher.from.c_str(), counted(windows.count, "window").c_str(),
            static_cast<long long>(std::ssize(missing)),
            std::chrono::duration<double>(Steady::now() - start).count(), directory.c_str());
    return files;
}

}  // namespace roll::train
