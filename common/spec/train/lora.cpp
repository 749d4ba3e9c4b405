#include "common/spec/train/lora.hpp"

namespace roll::spec {

std::optional<LoraPlace> place_of(std::string_view module) {
    const std::string_view name = module.substr(module.rfind('.') + 1);
    for (const auto& [known, place] : kLoraPlaces)
        if (name == known) return place;
    return std::nullopt;
}

const char* name_of(LoraPlace place) {
    return kLoraPlaces[static_cast<std::size_t>(place)].first.data();
}

const char* name_of(LoraBase base) {
    return kLoraBases[static_cast<std::size_t>(base)].first.data();
}

}  // namespace roll::spec
