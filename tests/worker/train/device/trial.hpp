// Compares an operator on a device and in a type with the same operator in float64 on the CPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>

namespace roll::ops {

// One compared value: max|found - exact| / max|exact|, and the largest allowed error.
struct Figure {
    std::string what;
    double error = 0;
    double limit = 0;
    bool is_good() const { return error <= limit; }  // false for NaN
};

class Trial {
  public:
    // `large`: also sizes that take a second on a CPU, and minutes under a memory checker.
    Trial(at::Device device, at::ScalarType type, bool large)
        : device_(device),
          type_(type),
          large_(large) {}

    at::Device device() const { return device_; }
    at::ScalarType type() const { return type_; }
    bool large() const { return large_; }

    // Returns random numbers in float64 on the CPU, rounded to the type of the trial.
    at::Tensor random(at::IntArrayRef sizes) const;

    // Returns the tensor on the device, in the type of the trial unless `type` is given.
    at::Tensor there(const at::Tensor& x) const { return there(x, type_); }
    at::Tensor there(const at::Tensor& x, at::ScalarType type) const;

    // Like there(), in memory that begins at an odd element of a larger tensor, as the parameters
    // of a model do.
    at::Tensor part(const at::Tensor& x) const { return part(x, type_); }
    at::Tensor part(const at::Tensor& x, at::ScalarType type) const;

    // Adds a figure. Several figures with the same name count as their worst. `float_limit` and
    // `narrow_limit` are the limits for float32 and for bfloat16.
    void compare(const std::string& what, const at::Tensor& found, const at::Tensor& exact,
                 double float_limit = 1e-5, double narrow_limit = 2e-2);

    const std::vector<Figure>& figures() const { return figures_; }

  private:
    at::Device device_;
    at::ScalarType type_;
    bool large_;
    std::vector<Figure> figures_;
};

struct OperatorCase {
    std::string_view name;
    void (*run)(Trial& trial);
};

// Returns one case for each operator that training calls.
std::vector<OperatorCase> operator_cases();

}  // namespace roll::ops
