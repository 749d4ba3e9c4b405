#include "worker/train/comm/tag.hpp"

namespace roll::train {
namespace {

const char* site_name(Site site) {
    switch (site) {
        case Site::Activation: return "activation";
        case Site::Gradient: return "gradient of an activation";
        case Site::Embedding: return "embedding";
        case Site::RowOutput: return "row output";
        case Site::ColumnInput: return "column input's gradient";
        case Site::ColumnRows: return "column input's rows";
        case Site::ContextKeys: return "keys and values";
        case Site::ContextGrads: return "gradients of keys and values";
        case Site::AdapterNorm: return "row norms of DoRA";
        case Site::RowGrad: return "row output's gradient";
        case Site::EmbeddingGrad: return "embedding's gradient";
        case Site::HeadRows: return "head input's rows";
        case Site::Loss: return "vocabulary-parallel loss";
        case Site::HeadInput: return "head input's gradient";
        case Site::PartialGrads: return "partial gradients";
        case Site::Bucket: return "gradients";
        case Site::TiedGrad: return "tied embedding's gradient";
        case Site::TokenCount: return "token count";
        case Site::StepSums: return "loss and gradient norm";
        case Site::LayerNorms: return "norms of the layers";
        case Site::Evaluation: return "evaluation";
        case Site::Sample: return "sampled text";
        case Site::NotFinite: return "search for a non-finite value";
        case Site::Weights: return "weights";
        case Site::Matrices: return "matrices of the optimizer update";
        case Site::Replicas: return "hashes of replicas";
        case Site::Agreement: return "agreement";
        case Site::Barrier: return "barrier";
    }
    return "?";
}

const char* numbered(Site site) {
    switch (site) {
        case Site::Bucket:
        case Site::PartialGrads: return ", bucket ";
        case Site::NotFinite:
        case Site::Weights: return ", parameter ";
        case Site::Matrices: return ", batch ";
        default: return ", layer ";
    }
}

}  // namespace

std::string text(const Tag& tag) {
    std::string words = site_name(tag.site);
    if (tag.layer >= 0) words += numbered(tag.site) + std::to_string(tag.layer);
    if (tag.microbatch >= 0) words += ", micro-batch " + std::to_string(tag.microbatch);
    if (tag.again) words += ", again";
    return words;
}

std::optional<Site> site_named(std::string_view words) {
    for (int i = 0; i <= static_cast<int>(Site::Barrier); ++i)
        if (const auto site = static_cast<Site>(i); words == site_name(site)) return site;
    return std::nullopt;
}

}  // namespace roll::train
