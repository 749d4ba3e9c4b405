// A linear layer of a chunk: a weight [O, I] and an optional bias [O]. Backward has two parts: the
// gradient of the input, and the gradients of the parameters. Stateless: the caller keeps the
// values that backward needs.
//
// The ranks of a tensor-parallel group may share the layer. Column: each rank has some of the
// outputs, and the gradient of the input is summed over the ranks. Row: each rank has some of the
// inputs, and the output is summed over the ranks. Each rank of a Row layer has the whole bias, but
// the bias is added only once, to the sum.
//
// A layer may have LoRA (lora.hpp). Then the sums include the LoRA products, and the layer's own
// weight and bias are frozen.
//
// With sequence parallelism (row_split.hpp), a rank passes its own rows to a Column layer and gets
// its own rows of a Row layer's output. Between the Column layer and the Row layer, each rank has
// all rows.
#pragma once

#include <map>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/dora.hpp"
#include "worker/train/model/row_split.hpp"
#include "worker/train/ops/values.hpp"

namespace roll::train {

// Lengths of the rows of weights in one step. The key is the weight's index.
using RowLengths = std::map<int, at::Tensor>;

struct Linear {
    const Parameters& parameters;
    int weight;     // index of the weight in `parameters`
    int bias = -1;  // index of the bias; -1: none
    families::Split split = families::Split::None;
    Communicator* tp = nullptr;  // the tensor-parallel group; null: the layer is not shared
    int layer = -1;              // index of the decoder layer, for the tags of operations
    RowSplit rows = {};
    Adapter adapter = {};
    bool again = false;  // true: backward recomputes this layer's forward pass; for the tags
    // The row lengths of the layers with DoRA in this step, by weight; null: lengths are not cached
    RowLengths* lengths = nullptr;

    // Returns x_MI @ weight^T + bias.
    at::Tensor forward(const at::Tensor& x_MI, const ops::Place& place = {}) const;

    // Returns residual_MO + forward(x_MI). The residual is added within the matrix product.
    at::Tensor forward_add(const at::Tensor& residual_MO, const at::Tensor& x_MI,
                           const ops::Place& place) const;

    // Returns the gradient of the output in the form that backward_input() and owe() need. For a
    // Row layer with sequence parallelism, this function gathers the rows of all ranks.
    at::Tensor whole_grad(const at::Tensor& dy_MO) const;

    // Returns the gradient of the input. Must not be called for Column layers.
    at::Tensor backward_input(const at::Tensor& dy_MO) const;

    // Passes to `contribute` the functions that compute the gradients of the bias, the weight and
    // LoRA's factors. For a frozen parameter, such a function does nothing and holds no tensor.
    void owe(const at::Tensor& dy_MO, const at::Tensor& x_MI, const Contribute& contribute) const;

    // For a Column layer, does the work of backward_input() and owe(). Calls `contribute` while the
    // ranks exchange their parts of the input's gradient.
    at::Tensor backward(const at::Tensor& dy_MO, const at::Tensor& x_MI,
                        const Contribute& contribute) const;

    // Returns the length of each row of W + s B A. The layer must have DoRA.
    at::Tensor length_O() const;

  private:
    bool is_shared(families::Split by) const;
    at::Tensor product(const at::Tensor& x_MI, const ops::Place& place) const;
    at::Tensor weight_OI() const;
    at::Tensor bias_O() const;
    bool is_frozen(int parameter) const;
};

}  // namespace roll::train
