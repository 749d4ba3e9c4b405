// A chunk's parameters: flat tensors of weights and gradients, and views of each parameter.
//
// The model computes with `weight`; the optimizer updates `main`. With bfloat16 and float16, main
// and grad are float32, and `weight` is `main`, rounded. With other types, weight and main are the
// same tensor. On a CPU, bfloat16's main is not stored as a tensor: `weight` and `rest` are the
// halves of its values (simd/halves.hpp), so that both together take the memory of main alone.
//
// If ranks share optimizer state, each rank updates some rows of every parameter. These are its own
// rows. `main` and `rest` have only the own rows. For ZeRO-3, see gathered_weights.hpp.
//
// Names are Megatron's with the layer's number in the whole model, so names and shapes are the same
// in every layout. For each key group, linear_qkv holds the rows of the group's query heads, then
// of its key, then of its value; the bias has the same order. linear_fc1 holds the gate's rows,
// then up's. A checkpoint stores these tensors unchanged. Parameters are in the order in which
// forward uses them, so backward completes gradients from the last to the first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "worker/layout/rows.hpp"
#include "worker/layout/shards.hpp"
#include "worker/train/model/chunk_spec.hpp"
#include "worker/train/model/contribute.hpp"
#include "worker/train/model/state_memory.hpp"
#include "worker/train/ops/packed.hpp"

namespace roll::train {

// The role of a parameter in LoRA. Base: a frozen weight of the model, without a main weight. Its
// elements of flat_rest or flat_main are never written. Factor: A, B or a magnitude. None: a weight
// that is trained directly, without factors.
enum class LoraRole { None, Base, Factor };

struct ParameterSpec {
    std::string name;
    std::vector<std::int64_t> sizes;
    int uses = 1;         // number of contributions to the parameter's gradient per micro-batch
    double start = -1;    // initial value of all elements; -1: drawn at random
    bool frozen = false;  // true: the parameter keeps its values, and its gradient stays 0
    // Set if tensor parallelism splits the parameter: sizes of the whole tensor, and this rank's
    // elements of that tensor. Elements of `sizes` in no part are padding, which is 0.
    std::vector<std::int64_t> whole = {};
    std::vector<layout::Part> parts = {};
    bool partial = false;  // true: the gradient must be summed over the tensor-parallel ranks
    double bound = 0;      // above 0: initial values are drawn uniformly from [-bound, bound)
    LoraRole lora = LoraRole::None;
    spec::PackedForm form = {};  // if packed: `weight` has packed rows, and there is no `main`
    ops::FusedRows fused = {};   // the matrices that a packed weight fuses
};

struct Parameters {
    std::vector<ParameterSpec> specs;
    at::Tensor flat_weight, flat_packed;  // flat_packed: the packed weights, as bytes
    at::Tensor flat_main;                 // main weights; undefined if flat_rest is defined
    at::Tensor flat_main_offloaded;       // main weights that are outside a GPU's memory
    at::Tensor flat_rest, flat_grad;
    std::vector<at::Tensor> weight, main, rest, grad;
    std::vector<layout::Rows> own;  // the rows that this rank updates
    bool is_shared = false;         // true: other ranks update other rows
    std::vector<bool> is_split;     // per parameter; true: other ranks store other rows of `weight`
    // Gradients of the rows `own`. Without a stage (GradStage), they are views of `grad`. With a
    // stage, they are views of flat_own_grad; those of frozen parameters are undefined. A tensor
    // of `grad` then exists only while the stage provides its memory.
    std::vector<at::Tensor> own_grad;
    at::Tensor flat_own_grad;  // undefined unless gradients are staged
    GradStage* stage = nullptr;
    StateMemory state_memory = {};  // allocates the optimizer state of the first `offloaded`
    std::size_t offloaded = 0;      // number of parameters whose state is outside the device
};

// Returns true if ZeRO-3 splits the parameter: all except vectors and LoRA's factors are split.
bool is_splittable(const ParameterSpec& spec);

// Returns the type of main weights and gradients.
at::ScalarType main_type(const Parameters& parameters);

// Returns this rank's own rows of `tensor`. It must have all rows of parameter `i`, or only these.
at::Tensor own_rows(const Parameters& parameters, std::size_t i, const at::Tensor& tensor);

// Returns an uninitialized tensor with the shape and type of the gradient of parameter `i`.
at::Tensor grad_like(const Parameters& parameters, int i);

// Copies elements of parameter i's main weight to `to`, a contiguous CPU tensor of main_type().
// Starts at element `begin` of this rank's own rows, and copies as many elements as `to` has.
void copy_main(const Parameters& parameters, std::size_t i, const at::Tensor& to,
               std::int64_t begin = 0);

// Give access to a parameter's main weight for writing. main_to_write() returns a CPU tensor in the
// parameter's shape, which the caller fills; then set_main() copies that tensor to the parameter.
// If the main weight is itself a CPU tensor, main_to_write() returns it and set_main() copies
// nothing. For a packed parameter, use set_packed() with the whole weight.
at::Tensor main_to_write(const Parameters& parameters, std::size_t i);
void set_main(const Parameters& parameters, std::size_t i, const at::Tensor& written);
void set_packed(const Parameters& parameters, std::size_t i, const at::Tensor& whole_OI);

// Writes the main weights of parameter `i` from element `begin` on. Requires that flat_rest is
// defined. Several threads may write parts of one parameter at once.
void set_halves(const Parameters& parameters, std::size_t i, std::int64_t begin,
                std::span<const float> written);

// Return the number of elements of all parameters, and of the parameters that are not frozen.
std::int64_t numel(const std::vector<ParameterSpec>& specs);
std::int64_t trainable_numel(const std::vector<ParameterSpec>& specs);

// Splits `flat`, which has the elements of all parameters, into one view for each parameter.
std::vector<at::Tensor> views_of(const std::vector<ParameterSpec>& specs, const at::Tensor& flat);

// Returns the parameters of a chunk. If chunk.tp > 1, these are the parts that rank chunk.tp_rank
// holds. Requires that spec::tensor_problems() is empty.
std::vector<ParameterSpec> parameter_specs(const spec::ModelConfig& config, const ChunkSpec& chunk);

struct InitOptions {
    std::uint64_t seed = 1;
    double std = 0.02;  // initial std. deviation of matrices; norms start as identity, biases as 0
    at::ScalarType dtype = at::kFloat;  // type of the weights: float, double, bfloat16 or float16
    at::Device device = at::kCPU;
    bool draw = true;       // false: the caller fills the weights; only LoRA factors are drawn
    bool gradients = true;  // false: there are no gradients, so the model cannot be trained
    std::vector<std::string> freeze = {};  // globs of the names of frozen parameters
    int owners = 1, owner = 0;  // number of ranks that share optimizer state, and this rank's index
    bool stages_gradients = false;  // true: a GradStage, set by the caller, allocates the gradients
    bool splits_weights = false;    // true: a rank stores only its own rows; needs stages_gradients
    StateMemory state_memory = {};  // see Parameters::state_memory
    OffloadedCount offloaded_count = {};  // empty: with state_memory, all parameters
};

// Copy this rank's part of a parameter between `own` (spec.sizes) and the whole tensor.
void copy_to_whole(const ParameterSpec& spec, const at::Tensor& own, const at::Tensor& whole);
void copy_from_whole(const ParameterSpec& spec, const at::Tensor& whole, const at::Tensor& own);

// Returns the sizes of the whole tensor of a parameter.
const std::vector<std::int64_t>& whole_sizes(const ParameterSpec& spec);

// Returns the number of rows of a parameter before its padding.
std::int64_t unpadded_rows(const ParameterSpec& spec);

// Freezes the parameters whose names match at least one of the globs.
void mark_frozen(std::vector<ParameterSpec>& specs, const std::vector<std::string>& globs);

// Returns true if a name matches at least one of the globs. As in fnmatch(3), * also matches dots.
bool matches_any(const std::vector<std::string>& globs, const std::string& name);

// Makes the parameters. Their weights depend only on the seed, the parameter's name and the
// element's index. Therefore, the weights are the same for any layout and number of threads.
Parameters make_parameters(std::vector<ParameterSpec> specs, const InitOptions& options);

}  // namespace roll::train
