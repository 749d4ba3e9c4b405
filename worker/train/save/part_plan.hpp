// Decides which bytes of a checkpoint each rank writes. Each byte is written by one rank.
//
// In the format mca, the weights are stored in the files of an MCA checkpoint with the job's
// layout. All replicas have the weights of each file. The optimizer state is stored in one file per
// rank. If ranks share optimizer state, each rank writes its own rows. Otherwise, the replicas
// divide the state. The replicas then divide the bytes of the files with weights, so that all ranks
// write about the same number of bytes. Without shared state, this requires that the replicas run
// on processors with the same vector instructions; otherwise one replica writes the whole file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/spec/train/train.hpp"
#include "common/tensor/view.hpp"
#include "worker/checkpoint/optimizer_index.hpp"
#include "worker/formats/mca.hpp"
#include "worker/layout/rows.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// A tensor in a rank's files.
struct Content {
    // the parameter: its chunk on this rank, and its index in the chunk
    std::size_t chunk = 0, index = 0;
    layout::Rows rows;        // the rows of the rank's parameter that are in the tensor
    tensor::TensorInfo info;  // the tensor in the file
    // ending of the optimizer state's name; empty: the tensor is a weight
    std::string_view state = {};
    bool is_whole = false;  // true: each rank of the parameter has the whole state
};

// The weights of one MCA file, chunk by chunk.
struct WeightFile {
    std::string path;
    std::vector<std::string> keys = {};               // for each chunk, its key in the file
    std::vector<std::vector<Content>> contents = {};  // for each key: the tensors stored under it
    // True: this rank hashes the file. It also writes the file's end, and reports the file.
    bool own = false;
    // The parts of the file that the replicas write, in the order of the replicas. For each part:
    // the number of bytes of tensors in it. Empty if the owner writes the whole file.
    std::vector<std::int64_t> shares = {};
};

// A block of consecutive rows of a parameter, or of a state of it, in a rank's .distcp file.
struct DistBlock {
    Content content;
    tensor::Shape whole, begin;  // shape of the checkpoint's tensor, and the block's place in it
};

struct PartPlan {
    std::vector<WeightFile> weights;  // empty in a LoRA job
    std::vector<Content> states;      // states, in the order of this rank's file
    std::string states_path;
    checkpoint::OptimizerIndex boxes;  // does not include the number of updates
    std::vector<DistBlock> blocks;     // in the order of this rank's .distcp file
    std::string blocks_path;
};

// Returns the layout of a job's MCA checkpoints. MCA has no name for schedules that place chunks in
// a V. With such a schedule, each chunk is stored as a stage.
formats::McaLayout mca_layout_of(const spec::ParallelSpec& parallel,
                                 const spec::ModelConfig& config,
                                 const plan::PipelineSchedule& schedule);

// Returns the plan of what this rank writes. `rank`: this rank's number in the job. All replicas
// must call this function together.
PartPlan plan_part(TrainStep& step, const formats::McaLayout& layout, int rank);

// Returns the blocks (ranges of elements in each dimension) of a parameter that the rows `rows` of
// a rank's tensor hold. `file` is the name of the file that stores these blocks. Pure.
std::vector<checkpoint::StoredBox> boxes_of(const ParameterSpec& spec, const layout::Rows& rows,
                                            const std::string& file);

}  // namespace roll::train
