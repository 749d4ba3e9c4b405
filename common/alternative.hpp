// Tests whether a type is one of a variant's alternatives.
#pragma once

#include <type_traits>
#include <variant>

namespace roll {

template <class T, class Variant>
constexpr bool kIsAlternative = false;
template <class T, class... Types>
constexpr bool kIsAlternative<T, std::variant<Types...>> = (std::is_same_v<T, Types> || ...);

template <class T, class Variant>
concept AlternativeOf = kIsAlternative<T, Variant>;

}  // namespace roll
