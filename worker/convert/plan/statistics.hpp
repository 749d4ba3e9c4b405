// Computes statistics of one tensor, which is read window by window.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

struct Statistics {
    std::string name;
    tensor::DType dtype = tensor::DType::F32;
    tensor::Shape shape;
    std::int64_t elements = 0;
    std::int64_t zeros = 0;
    std::int64_t not_finite = 0;
    double min = 0, max = 0, mean = 0, deviation = 0;  // statistics of the finite values
    std::vector<double> first;                         // the first values, at most eight
};

// Computes the statistics of the model's tensor with the HuggingFace name `name`. Fails with
// InvalidArgument if the model has no such tensor, or if its type is not a floating-point type.
Result<Statistics> statistics_of(const Source& source, const std::string& name);

Json to_json(const Statistics& statistics);
std::string to_text(const Statistics& statistics);

}  // namespace roll::convert
