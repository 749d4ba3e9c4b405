// Combines several lambdas into one function object, for std::visit.
#pragma once

namespace roll {

template <class... Fs>
struct Overload : Fs... {
    using Fs::operator()...;
};
template <class... Fs>
Overload(Fs...) -> Overload<Fs...>;  // clang before 17 needs this deduction guide

}  // namespace roll
