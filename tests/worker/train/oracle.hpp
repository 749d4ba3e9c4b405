// Functions of the tests that compare the trainer with an oracle in float64.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "tests/worker/train/expect.hpp"
#include "worker/train/model/load_weights.hpp"
#include "worker/train/model/model_setup.hpp"

namespace roll::train {

constexpr double kLimit = 1e-10;

// Returns the tensors of a directory in the layout of the trainer's parameters.
inline Parameters read_parameters(const std::filesystem::path& directory,
                                  const spec::ModelConfig& config) {
    Parameters p = make_parameters(parameter_specs(config, whole_chunk(config)),
                                   {.dtype = at::kDouble, .draw = false});
    load_weights(directory, p);
    return p;
}

// Expects tensors that are as expected, to kLimit. Returns the largest error.
inline double expect_parameters(const std::vector<at::Tensor>& tensors, const Parameters& expected,
                                const std::string& what) {
    double worst = 0;
    for (std::size_t i = 0; i < expected.specs.size(); ++i) {
        expect_close(tensors[i], expected.weight[i], what + " " + expected.specs[i].name, kLimit);
        worst = std::max(worst, error(tensors[i], expected.weight[i]));
    }
    return worst;
}

}  // namespace roll::train
