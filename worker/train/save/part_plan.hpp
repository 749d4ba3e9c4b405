// Decides which bytes of a checkpoint each rank writes. Each byte has one writer.
//
// The weights are in the files of an MCA checkpoint of the job's layout. All replicas have the
// weights of such a file; one of them writes it. The optimizer's state is in one file a rank. Ranks
// that share optimizer state write their own rows; otherwise the replicas divide the state so that
// all write about as many bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/spec/train.hpp"
#include "common/tensor/view.hpp"
#include "worker/checkpoint/optimizer_index.hpp"
#include "worker/formats/mca.hpp"
#include "worker/layout/rows.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// A tensor of a rank's files.
struct Content {
    std::size_t chunk = 0, index = 0;  // the parameter: its chunk on this rank, its place there
    layout::Rows rows;                 // the rows of the rank's parameter
    tensor::TensorInfo info;           // the tensor in the file
    std::string_view state = {};       // ending of the optimizer's state; empty: the weight
};

// The weights of one MCA file, chunk by chunk.
struct WeightFile {
    std::string path;
    std::vector<std::string> keys = {};               // the chunks' keys in the file
    std::vector<std::vector<Content>> contents = {};  // by key
    bool own = false;                                 // true: this rank writes the file
};

struct PartPlan {
    std::vector<WeightFile> weights;  // empty in a LoRA job
    std::vector<Content> states;      // sorted by name
    std::string states_path;
    checkpoint::OptimizerIndex boxes;  // without the number of updates
};

// Returns the layout of the MCA checkpoints of a job. MCA has no name for schedules that place the
// chunks in a V; in their checkpoints, each chunk is a stage.
formats::McaLayout mca_layout_of(const spec::ParallelSpec& parallel,
                                 const spec::ModelConfig& config,
                                 const plan::PipelineSchedule& schedule);

// Returns what this rank writes. `rank`: its number in the job.
PartPlan plan_part(TrainStep& step, const formats::McaLayout& layout, int rank);

// Returns how many bytes of `shared` each rank gets, so that the largest sum of its share and of
// its `fixed` bytes is as small as possible. Pure.
std::vector<std::int64_t> balanced_shares(const std::vector<std::int64_t>& fixed,
                                          std::int64_t shared);

// Returns the boxes of a parameter's elements in the rows `rows` of a rank's tensor, as a file
// stores these rows. Pure.
std::vector<checkpoint::StoredBox> boxes_of(const ParameterSpec& spec, const layout::Rows& rows,
                                            const std::string& file);

}  // namespace roll::train
