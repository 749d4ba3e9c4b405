// Functions of the tests that compare the trainer with an oracle in float64.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "common/tensor/safetensors.hpp"
#include "tests/worker/train/expect.hpp"
#include "worker/train/model/load_weights.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

constexpr double kLimit = 1e-10;

// Returns the folders of the oracle's cases, in order.
inline std::vector<std::filesystem::path> oracle_cases() {
    const char* folder = std::getenv("ROLL_ORACLE_DATA");
    if (folder == nullptr) throw std::runtime_error("run by ctest: no ROLL_ORACLE_DATA");
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.is_directory()) found.push_back(entry.path());
    std::ranges::sort(found);
    return found;
}

// Returns the tensors of a file, all of which are float64.
inline std::map<std::string, at::Tensor> tensors_of(const std::filesystem::path& file) {
    std::map<std::string, at::Tensor> tensors;
    const auto opened = tensor::SafetensorsFile::open(file).value();
    for (const tensor::TensorView& view : opened.tensors()) {
        EXPECT_EQ(view.info.dtype, tensor::DType::F64) << view.info.name;
        tensors[view.info.name] =
            at::from_blob(const_cast<std::byte*>(view.bytes.data()), view.info.shape, at::kDouble)
                .clone();
    }
    return tensors;
}

// Returns the four rows of a step as two micro-batches.
inline std::vector<Microbatch> two_microbatches(const at::Tensor& ids, const at::Tensor& targets,
                                                std::int64_t step) {
    std::vector<Microbatch> batch;
    for (const std::int64_t row : {0, 2}) {
        batch.push_back({ids[step].narrow(0, row, 2).contiguous(),
                         targets[step].narrow(0, row, 2).contiguous()});
        batch.back().first_row = (step * ids.size(1) + row) * ids.size(2);
    }
    return batch;
}

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
