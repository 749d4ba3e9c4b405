// The common description of all formats. Every stored tensor consists of boxes of the model's
// HuggingFace tensors. A conversion copies each box from its place in one format to its place in
// the other. Pure.
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

// Maps the dims of a HuggingFace tensor to those of a stored tensor: dim d runs along stored dim
// axes[d] with step steps[d]. An empty vector means the same dim, or step 1.
struct Placing {
    std::vector<std::size_t> axes = {};
    std::vector<std::int64_t> steps = {};

    std::size_t axis(std::size_t dim) const { return axes.empty() ? dim : axes[dim]; }
    std::int64_t step(std::size_t dim) const { return steps.empty() ? 1 : steps[dim]; }
};

// The box [begin, begin + size) of HuggingFace tensor number `hf`, at `stored_begin` of a stored
// tensor.
struct Piece {
    int hf = 0;
    Shape begin;
    Shape size;
    Shape stored_begin;
    Placing placing = {};
    double add = 0;  // stored = HuggingFace + add
};

// How a stored tensor is computed. Copies: from its pieces. Blocks and Scales: the 8-bit values, or
// the block scales, of its only piece, a weight (quantize.hpp).
enum class Making { Copies, Blocks, Scales };

// A tensor of a checkpoint: its place and the parts of the model that it holds.
struct Stored {
    std::string file;     // relative to the checkpoint's directory
    std::string section;  // in a torch file, such as "model"; empty in safetensors
    std::string name;
    Shape shape;
    std::vector<Piece> pieces;
    bool optional = false;  // may be absent: a copy that only some writers store
    // For a chunk of a larger tensor (torch_dist): the larger tensor's shape, and the chunk's
    // origin in it. Both have leading dims, of size 1 in the chunk, that `shape` omits.
    Shape whole = {};
    Shape origin = {};
    Making making = Making::Copies;
    std::int64_t block_rows = 0;
    std::int64_t block_columns = 0;
};

// The HuggingFace tensors that the family's rules name, numbered. On disk several may be packed
// into one.
struct Model {
    // HuggingFace files store tensor number `hf` a second time under `name`.
    struct SecondName {
        std::string name;
        int hf = 0;
    };
    std::vector<families::HfTensor> tensors;
    std::map<std::string, int> number;  // by name
    std::map<int, double> additions;    // by number: native = HuggingFace + this
    std::set<int> keeps_fp32;           // numbers of tensors that a cast leaves F32
    std::vector<families::PackedTensor> packed;
    std::vector<SecondName> copies;

    int add(const families::HfTensor& tensor);
};

Model model_of(const std::vector<families::NativeTensor>& native);

// Returns one Stored per whole HuggingFace tensor; `file` is left empty.
std::vector<Stored> hf_layout(const Model& model);

// The same for the files of a HuggingFace directory: a packed tensor takes the place of its first
// member, copies come last.
std::vector<Stored> hf_disk_layout(const Model& model);

// Returns the shape of a packed tensor and the places of its members.
Stored packed_layout(const Model& model, const families::PackedTensor& packed);

}  // namespace roll::convert
