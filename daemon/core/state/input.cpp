#include "daemon/core/state/input.hpp"

namespace roll::core {

Input::Input(const Input&) = default;
Input::Input(Input&&) noexcept = default;
Input& Input::operator=(const Input&) = default;
Input& Input::operator=(Input&&) noexcept = default;
Input::~Input() = default;

}  // namespace roll::core
