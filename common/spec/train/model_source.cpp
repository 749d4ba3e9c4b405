#include "common/spec/train/model_source.hpp"

#include <array>
#include <string>
#include <string_view>

namespace roll::spec {
namespace {

// Keys of a HuggingFace config that a job may override although it uses model.from.
constexpr std::array<std::string_view, 4> kOverridden{"attention_dropout", "residual_dropout",
                                                      "hidden_dropout", "router_aux_loss_coef"};

}  // namespace

Json overridden_of(const Json& model) {
    Json dropouts = Json::object();
    for (const std::string_view key : kOverridden)
        if (const auto found = model.find(key); found != model.end())
            dropouts[std::string(key)] = *found;
    return dropouts;
}

}  // namespace roll::spec
