// The common ground of all formats. Every stored tensor, in whatever layout, is made of boxes of
// the model's HuggingFace tensors; a conversion takes each box from where one format has it to
// where the other wants it. Pure.
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

// Where a HuggingFace tensor's dims lie in a stored tensor: dim d goes along stored dim axes[d] in
// steps of steps[d]. Empty: along its own dim, in steps of 1.
struct Placing {
    std::vector<std::size_t> axes = {};
    std::vector<std::int64_t> steps = {};

    std::size_t axis(std::size_t dim) const { return axes.empty() ? dim : axes[dim]; }
    std::int64_t step(std::size_t dim) const { return steps.empty() ? 1 : steps[dim]; }
};

// The box [begin, begin + size) of HuggingFace tensor number `hf`, lying at stored_begin of a
// stored tensor.
struct Piece {
    int hf = 0;
    Shape begin;
    Shape size;
    Shape stored_begin;
    Placing placing = {};
    double add = 0;  // stored = HuggingFace + add
};

// Copies: a stored tensor is made of its pieces. Blocks and scales: of the one weight that is its
// piece, the numbers of eight bits and the scale of each block (quantize.hpp).
enum class Making { Copies, Blocks, Scales };

// A tensor of a checkpoint: where it is, and what of the model it holds.
struct Stored {
    std::string file;     // from the checkpoint's directory
    std::string section;  // of a torch file: "model"; empty in safetensors
    std::string name;
    Shape shape;
    std::vector<Piece> pieces;
    bool optional = false;  // a checkpoint may lack it: a copy of another, kept by some writers
    // Of a chunk of a larger tensor (torch_dist): that tensor's shape, and where in it the chunk
    // begins. Both have dims in front, of size 1 in the chunk, that `shape` leaves out.
    Shape whole = {};
    Shape origin = {};
    Making making = Making::Copies;
    std::int64_t block_rows = 0;
    std::int64_t block_columns = 0;
};

// The HuggingFace tensors of a model, numbered: those that its family's rules name. On disk some
// may be packed into one.
struct Model {
    // HuggingFace files hold tensor number `hf` a second time under `name`.
    struct SecondName {
        std::string name;
        int hf = 0;
    };
    std::vector<families::HfTensor> tensors;
    std::map<std::string, int> number;  // by name
    std::map<int, double> additions;  // those that native tensors hold changed: native = it + this
    std::set<int> keeps_fp32;         // those that a cast to another type leaves F32
    std::vector<families::PackedTensor> packed;
    std::vector<SecondName> copies;

    int add(const families::HfTensor& tensor);
};

Model model_of(const std::vector<families::NativeTensor>& native);

// Whole HuggingFace tensors, one Stored each; `file` is left empty.
std::vector<Stored> hf_layout(const Model& model);

// The same as they lie in a HuggingFace directory: packed ones in the place of their first member,
// copies at the end.
std::vector<Stored> hf_disk_layout(const Model& model);

// Of a tensor that holds others: its shape, and where its members lie in it.
Stored packed_layout(const Model& model, const families::PackedTensor& packed);

}  // namespace roll::convert
