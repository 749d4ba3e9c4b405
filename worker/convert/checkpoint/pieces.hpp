// The description of checkpoints that all formats share. Every stored tensor consists of
// rectangular blocks of the model's HuggingFace tensors. A conversion copies each block from its
// place in one format to its place in the other format. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/tensor/view.hpp"
#include "worker/families/model.hpp"

namespace roll::convert {

using tensor::Shape;

// Maps the dims of a HuggingFace tensor to the dims of a stored tensor. Dim d runs along stored dim
// axes[d] with step steps[d]. If `axes` is empty, each dim is mapped to itself. If `steps` is
// empty, all steps are 1.
struct Placing {
    std::vector<std::size_t> axes = {};
    std::vector<std::int64_t> steps = {};

    std::size_t axis(std::size_t dim) const { return axes.empty() ? dim : axes[dim]; }
    std::int64_t step(std::size_t dim) const { return steps.empty() ? 1 : steps[dim]; }
};

// The block [begin, begin + size) of HuggingFace tensor number `hf`. In the stored tensor, the
// block begins at `stored_begin`.
struct Piece {
    int hf = 0;
    Shape begin;
    Shape size;
    Shape stored_begin;
    Placing placing = {};
    double add = 0;  // stored value = HuggingFace value + add
};

// How a stored tensor is computed. With Copies, the tensor's pieces are copied. With Blocks and
// Scales, the tensor has one piece, a weight that is quantized (quantize.hpp). Blocks computes the
// 8-bit values, and Scales computes the scales.
enum class Making { Copies, Blocks, Scales };

// A tensor in the form in which a checkpoint stores it: its place in the checkpoint, and the parts
// of the model that it contains.
struct Stored {
    std::string file;     // path relative to the checkpoint's directory
    std::string section;  // key in a torch file, such as "model"; empty in safetensors
    std::string name;
    Shape shape;
    std::vector<Piece> pieces;
    bool optional = false;  // true: a copy that some writers do not store, so it may be absent
    // For a chunk of a larger tensor (torch_dist), `whole` is the shape of the larger tensor, and
    // `origin` is the index at which the chunk begins in it. The chunk has size 1 along the leading
    // dims of the larger tensor; `whole` and `origin` have these dims, but `shape` does not. For
    // other tensors, `whole` and `origin` are empty.
    Shape whole = {};
    Shape origin = {};
    // true: a chunk of a tensor with one dim. `origin` is the chunk's first element. The file has
    // the chunk's elements in one dim, in row-major order.
    bool flat = false;
    Making making = Making::Copies;
    std::int64_t block_rows = 0;
    std::int64_t block_columns = 0;
};

// The HuggingFace tensors that the family's rules name. Each has a number. On disk, several of them
// may be packed into one tensor.
struct Model {
    // A name under which HuggingFace files store tensor number `hf` a second time.
    struct SecondName {
        std::string name;
        int hf = 0;
    };
    std::vector<families::HfTensor> tensors;
    std::map<std::string, int> number;  // maps a tensor's name to its number
    // maps a tensor's number to its constant: native value = HuggingFace value + constant
    std::map<int, double> additions;
    std::set<int> keeps_fp32;  // tensors, by number, that stay F32 when the model is cast
    std::vector<families::PackedTensor> packed;
    std::vector<SecondName> copies;
    std::set<int> kept;  // tensors, by number, that Megatron cannot name (read/kept.hpp)

    int add(const families::HfTensor& tensor);
};

Model model_of(const std::vector<families::NativeTensor>& native);

// Returns the name of a tensor's module. For "decoder.layers.0.mlp.linear_fc1.weight", this is
// "decoder.layers.0.mlp.linear_fc1".
std::string module_of(const std::string& tensor);

// Returns a Stored that holds the whole HuggingFace tensor `number` and has an empty `file`.
Stored whole_tensor(const Model& model, int number);

// Returns whole_tensor() for each HuggingFace tensor.
std::vector<Stored> hf_layout(const Model& model);

// Returns the tensors in the form in which HuggingFace directories store them. A packed tensor is
// at the position of its first member. Second copies of tensors (SecondName) come last.
std::vector<Stored> hf_disk_layout(const Model& model);

// Returns the shape of a packed tensor and the places of its members.
Stored packed_layout(const Model& model, const families::PackedTensor& packed);

}  // namespace roll::convert
