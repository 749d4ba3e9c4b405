// The purpose of an operation between ranks. All ranks that take part in an operation pass the same
// tag.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace roll::train {

enum class Site : std::uint8_t {
    Activation,     // activation, to the next stage; `layer`: the receiver's first layer
    Gradient,       // activation gradient, to the previous stage; `layer`: the sender's first layer
    Embedding,      // the vocabulary-parallel embedding's output
    RowOutput,      // the output of a row-parallel linear layer
    ColumnInput,    // the gradient of a column-parallel linear layer's input
    ColumnRows,     // the rows of a column-parallel linear layer's input
    ContextKeys,    // the keys and values of the ranks that share a sequence
    ContextGrads,   // the gradients of these keys and values
    AdapterNorm,    // DoRA: squared lengths of the rows of a row-parallel layer's weight
    RowGrad,        // the rows of the gradient of a row-parallel linear layer's output
    EmbeddingGrad,  // the rows of the gradient of the embedding's output
    HeadRows,       // the rows of the vocabulary-parallel head's input
    Loss,           // the vocabulary-parallel loss: each rank's part of the log-sum-exp
    HeadInput,      // the gradient of the vocabulary-parallel head's input
    PartialGrads,   // gradients of parameters that each tp rank holds whole; `layer`: the bucket
    Bucket,         // gradients that are summed over the replicas; `layer`: the bucket
    TiedGrad,       // the gradient of a tied embedding, summed over the two stages that hold a copy
    TokenCount,     // number of targets that count in a step's loss
    StepSums,       // the loss of a step, and sums over its gradient
    LayerNorms,     // sums of squares over each layer's gradient, weights and update
    Evaluation,     // loss and token count of an evaluation
    Sample,         // generated text: each rank's logits, and the chosen token
    NotFinite,      // the search for a non-finite value; `layer`: the parameter
    Weights,        // weights that ranks copy from each other; `layer`: the parameter or bucket
    Matrices,       // whole matrices that the optimizer updates; `layer`: the batch of matrices
    Replicas,       // hashes of the tensors that the replicas hold as copies
    Agreement,      // a decision that all ranks of the job make together
    Barrier,
};

struct Tag {
    Site site;
    // number of the layer in the model, counted from 0; for other meanings, see Site
    int layer = -1;
    int microbatch = -1;
    bool again = false;  // true: backward recomputes the layer's forward
    friend bool operator==(const Tag&, const Tag&) = default;
};

// Returns the tag in words, such as "row output, layer 3, micro-batch 1".
std::string text(const Tag& tag);

// Returns the site whose description is `words`, such as "row output"; nullopt if there is none.
std::optional<Site> site_named(std::string_view words);

}  // namespace roll::train
