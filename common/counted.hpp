// Numbers with their nouns, for messages: "1 layer", "2 layers".
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace roll {

// Returns "layer" if `number` is 1, else "layers".
std::string noun_for(std::integral auto number, std::string_view noun) {
    if (number == 1) return std::string(noun);
    if (noun.ends_with("ry")) return std::string(noun.substr(0, noun.size() - 1)) + "ies";
    return std::string(noun) + (noun.ends_with("ch") ? "es" : "s");
}

std::string counted(std::integral auto number, std::string_view noun) {
    return std::to_string(number) + " " + noun_for(number, noun);
}

}  // namespace roll
