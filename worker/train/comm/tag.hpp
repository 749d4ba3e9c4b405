// The purpose of an operation between ranks. All ranks that take part in it pass the same tag.
#pragma once

#include <cstdint>
#include <string>

namespace roll::train {

enum class Site : std::uint8_t {
    Activation,     // from a stage to the next; `layer`: the next stage's first layer
    Gradient,       // of an activation, to the stage before; `layer` as of the activation
    Embedding,      // the vocabulary-parallel embedding's output
    RowOutput,      // the output of a linear layer that is split by rows
    ColumnInput,    // the gradient of the input of a linear layer that is split by columns
    ColumnRows,     // the rows of the input of a linear layer that is split by columns
    RowGrad,        // the rows of the gradient of the output of one that is split by rows
    EmbeddingGrad,  // the rows of the gradient of the embedding's output
    HeadRows,       // the rows of the vocabulary-parallel head's input
    Loss,           // the vocabulary-parallel loss: each rank's part of the log-sum-exp
    HeadInput,      // the gradient of the vocabulary-parallel head's input
    PartialGrads,   // of parameters that each tensor-parallel rank holds whole; `layer`: the bucket
    Bucket,         // gradients over the replicas; `layer`: the bucket
    TiedGrad,       // over the two stages that hold the tied embedding
    TokenCount,     // of a step
    LossSum,        // of a step
    GradNorm,       // of a step: the sum of squares
    GradZeros,      // of a step
    Evaluation,     // loss and token count of an evaluation
    NotFinite,      // the search for a value that is not finite; `layer`: the parameter
    Weights,        // copies of parameters; `layer`: the parameter, or the bucket
    Agreement,      // a decision that all ranks of the job make together
    Barrier,
};

struct Tag {
    Site site;
    int layer = -1;  // number of the layer in the model, from 0; see Site for other meanings
    int microbatch = -1;
    friend bool operator==(const Tag&, const Tag&) = default;
};

// Returns the tag in words, e.g. "row output, layer 3, micro-batch 1".
std::string text(const Tag& tag);

}  // namespace roll::train
