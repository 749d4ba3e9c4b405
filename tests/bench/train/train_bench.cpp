// Runs one training step of one rank for each line on stdin. compare.py runs this and bench_hf.py
// in turn. Prints the seconds to read the weights, then the seconds of each step. At the end of
// input prints one JSON line {loss, rss_mib, of_matmul}. rss_mib is the process's peak memory.
// of_matmul is a median: the step's FLOP/s divided by those of a matrix product that is measured
// after the step.
//
//   train_bench SHAPE|DIR THREADS fp32|bf16     (DIR: a Hugging Face or MCA model)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/resource.h>

#include "worker/plan/cost.hpp"
#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/model/load_weights.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"
#include "worker/train/process/memory.hpp"
#include "worker/train/report/peak.hpp"

namespace roll::train {
namespace {

struct Shape {
    spec::ModelConfig config;
    std::int64_t batch;
    std::int64_t positions;
    std::string directory = {};  // directory of the weights; empty: random weights
};

// Returns a shape by its name. The shapes are the same as in bench_hf.py.
Shape shape_of(const std::string& name) {
    if (std::filesystem::is_directory(name)) return {setup_model(name).config, 4, 256, name};
    if (name == "5m") {
        return {{.family = "llama",
                 .hidden = 256,
                 .layers = 6,
                 .heads = 4,
                 .kv_heads = 4,
                 .head_dim = 64,
                 .intermediate = 688,
                 .vocab = 256,
                 .positions_max = 256},
                8,
                256};
    }
    if (name == "8m") {
        return {{.family = "llama",
                 .hidden = 256,
                 .layers = 8,
                 .heads = 4,
                 .kv_heads = 4,
                 .head_dim = 64,
                 .intermediate = 688,
                 .vocab = 4096,
                 .positions_max = 256},
                8,
                256};
    }
    return {{.family = "llama",
             .hidden = 576,
             .layers = 30,
             .heads = 9,
             .kv_heads = 3,
             .head_dim = 64,
             .intermediate = 1536,
             .vocab = 49152,
             .positions_max = 256,
             .tied = true},
            4,
            256};
}

// Returns the seconds to load the weights, including the allocation of their memory.
double load_seconds(const Shape& shape, at::ScalarType dtype) {
    const auto began = std::chrono::steady_clock::now();
    const ChunkSpec whole = whole_chunk(shape.config);
    Parameters parameters = make_parameters(parameter_specs(shape.config, whole),
                                            {.dtype = dtype, .draw = false, .gradients = false});
    load_weights(shape.directory, parameters);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

void serve(const Shape& shape, int threads, at::ScalarType dtype) {
    at::set_num_threads(threads);
    keep_freed_memory();
    std::printf("%.3f\n", shape.directory.empty() ? 0 : load_seconds(shape, dtype));
    std::fflush(stdout);
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const plan::PipelineSchedule schedule = plan::one_forward_one_backward(1, 1);
    TrainStep trainer(shape.config, schedule, {self, self},
                      {.init = {.dtype = dtype, .draw = shape.directory.empty()}, .clip_grad = 0});
    if (!shape.directory.empty()) load_weights(shape.directory, trainer.chunks()[0].parameters());
    const at::Tensor ids = at::randint(shape.config.vocab, {shape.batch, shape.positions + 1});
    const Microbatch batch[] = {{ids.narrow(1, 0, shape.positions).contiguous(),
                                 ids.narrow(1, 1, shape.positions).contiguous()}};
    const double flops = plan::flops_per_token(shape.config, shape.positions).causal *
                         static_cast<double>(ids.size(0) * shape.positions);
    double loss = 0;
    std::vector<double> shares;
    for (std::string line; std::getline(std::cin, line);) {
        const auto start = std::chrono::steady_clock::now();
        loss = trainer.run(batch, 1e-4).loss;
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        shares.push_back(flops / took.count() / measure_peak_flops(at::TensorOptions(dtype)));
        std::printf("%.6f\n", took.count());
        std::fflush(stdout);
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::sort(shares.begin(), shares.end());
    std::printf("{\"loss\": %.4f, \"rss_mib\": %ld, \"of_matmul\": %.3f}\n", loss,
                usage.ru_maxrss / 1024, shares.empty() ? 0 : shares[shares.size() / 2]);
}

}  // namespace
}  // namespace roll::train

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const bool narrow = argv[3] == std::string("bf16");
    roll::train::serve(roll::train::shape_of(argv[1]), std::atoi(argv[2]),
                       narrow ? at::kBFloat16 : at::kFloat);
}
