// One rank's run of a train or resume job. All ranks make the same decisions in the same order. A
// signal or command may reach only one rank, so the ranks vote on them at the end of each step.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/protocol/rank.hpp"
#include "common/spec/train/train.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/comm/backend.hpp"
#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/data/batches.hpp"
#include "worker/train/data/training_data.hpp"
#include "worker/train/job/agreed.hpp"
#include "worker/train/job/hooks.hpp"
#include "worker/train/job/judge.hpp"
#include "worker/train/job/pace.hpp"
#include "worker/train/job/reference_pass.hpp"
#include "worker/train/job/steering.hpp"
#include "worker/train/job/step_exports.hpp"
#include "worker/train/job/step_guard.hpp"
#include "worker/train/job/validation.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/job_schedule.hpp"
#include "worker/train/pipeline/train_step.hpp"
#include "worker/train/report/metrics.hpp"
#include "worker/train/save/part_writer.hpp"
#include "worker/train/save/saver.hpp"

namespace roll::train {

class Trainer {
  public:
    // Connects the ranks and restores the state. Throws RankFailure or PeerLost.
    Trainer(const protocol::Launch& launch, int rank, WorkerLink& link, TrainingData data,
            Backend backend);

    // Trains. Returns 0, or the exit status of an early stop. Throws RankFailure or PeerLost.
    int run();

  private:
    using Clock = std::chrono::steady_clock;
    void connect();
    void connect_recorder();
    void tell_stuck(const std::string& why);
    void load_model(const std::string& directory);
    void find_references(const TrainingData& data);
    void find_teacher_values(const TrainingData& data);
    std::vector<ReferenceFile> reference_files(const std::vector<std::string>& hashes) const;
    BatchRules batch_rules() const;
    void restore_newest();
    void start_from_given();
    void recall_left_out();
    void open_outputs(std::uint64_t bytes_at_most, std::optional<formats::DcpMetadata> dist);
    std::uint64_t checkpoint_bytes(const std::optional<formats::DcpMetadata>& dist);
    std::vector<double> ballot(std::int64_t step);
    Agreed count(const at::Tensor& all_RN);
    Agreed agree();
    void carry_out(const std::vector<TrainingRequest>& requests);
    void answer(std::uint64_t request, const std::string& text, std::int64_t stop_step = 0);
    void evaluate_now(const TrainingRequest& request);
    void stop_at(const TrainingRequest& request);
    void end_profile();
    std::int64_t last_step() const;  // the step after which the run ends
    Agreed train_step();
    [[noreturn]] void end_after_hook();
    void stop(const Agreed& agreed);
    StepPlace place() const;
    int run_steps();
    std::string doing() const;
    void after_step(const StepResult& result, double seconds);
    std::vector<double> numbers_at_end(const std::vector<Microbatch>& batch);
    void tell_step();
    void find_peak();
    void tell_memory(const TensorBytes& before);
    void check_replicas();
    void note_scale(const StepResult& result);
    bool measurement_ends(bool last);
    std::optional<std::vector<ValidResult>> measure(
        const Moment& moment);   // nullopt: the measurement was ended early
    void swap_for_evaluation();  // swaps weights and average, if evaluations use the average
    std::vector<std::string> metrics() const;  // returns the metrics that the job measures
    bool judge();  // judges the measured values; returns true if they are the best so far
    Moment moment() const;
    void measure_export();  // measures the validation loss with weights rounded as in the export
    bool evaluate_tasks(bool last);  // returns true if all tasks were evaluated
    bool stops_early() const;
    bool sample();
    enum class Save { Always, UnlessSaved };  // UnlessSaved: does nothing if the step is saved
    void save(Save when = Save::Always);
    void finish_part();
    void conclude_parts(bool failed);
    Result<checkpoint::Manifest> verify_shared(const std::filesystem::path& directory);
    bool await_space();
    void await_recorded();
    bool due(std::int64_t every) const;
    bool writes() const { return rank_ == 0; }
    HookFacts facts() const;
    void take_recorded(const std::vector<std::int64_t>& steps);

    protocol::Launch launch_;
    int rank_;
    WorkerLink& link_;
    Backend backend_;
    spec::TrainSpec spec_;
    std::string record_;  // the job record (job_record.hpp)
    ModelSetup model_;
    data::Corpus corpus_;
    std::vector<data::Corpus> valid_;
    std::vector<Task> tasks_;
    data::LearnedDocuments learned_;  // set only on rank 0
    data::Sampler sampler_;
    Validation validation_;
    JobPipeline pipeline_;
    LocalGroup alone_{1};
    std::optional<GlooFabric> fabric_;
    std::unique_ptr<FlightRecorder> recorder_;  // null in a job of one rank
    std::unique_ptr<Communicator> world_, dp_, pp_, tp_, cp_;
    std::unique_ptr<Communicator> tie_;  // the two stages with a tied embedding; may be null
    std::optional<TrainStep> step_;
    std::string loaded_, loaded_how_;  // the model that load_model() loaded last, and its format
    std::optional<PairReferences> references_;   // set if the objective needs a reference model
    std::optional<TeacherValuesFiles> teacher_;  // set if the objective needs a teacher model
    bool stopped_ = false;                       // true: told to stop before the first step
    checkpoint::State state_;
    checkpoint::Choice choice_;
    std::optional<PartWriter> part_;
    std::optional<checkpoint::State> saving_;  // state in the checkpoint that is being written
    std::optional<Saver> saver_;               // set only on rank 0
    std::optional<StepExports> exports_;       // set only on rank 0, with export.every
    std::optional<Metrics> metrics_;           // set only on rank 0
    std::int64_t tokens_before_ = 0;           // number of tokens trained before the latest step
    PhaseClock clock_;
    Pace pace_;
    plan::Untrained untrained_;
    enum class Activity { Step, Validation, Checkpoint } activity_ = Activity::Step;
    Judge judge_{spec_};
    StepGuard guard_{spec_, launch_, state_};
    Hooks hooks_;
    Steering steering_;
    std::int64_t said_saved_ = 0;  // step of the newest checkpoint that rolld has recorded
};

}  // namespace roll::train
