// model_check MODEL fp32|fp64 TOLD: compares a whole model directory with transformers' results.
//
// TOLD has two parts. told.safetensors has `ids` [row, position], `logits` and `loss` (the mean
// over every position's next token). `grad` is a HuggingFace directory of the loss's gradients.
// Prints one JSON line: the errors (max |a - b| / max |b|; for gradients the worst tensor's) and
// the cost of loading the model. tests/oracle/whole_model.py runs this program.
#include <chrono>
#include <cstdio>
#include <fstream>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "common/json.hpp"
#include "common/tensor/safetensors.hpp"
#include "worker/train/model/chunk.hpp"
#include "worker/train/model/load_weights.hpp"
#include "worker/train/model/model_setup.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

double error(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
    const double scale = y.abs().max().item<double>();
    return (x - y).abs().max().item<double>() / (scale > 0 ? scale : 1);
}

// Returns the peak memory of this process in MiB.
double peak_mib() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
    return 0;
}

at::Tensor read(const tensor::SafetensorsFile& file, const std::string& name) {
    const tensor::TensorView& view = *file.find(name);
    return at::from_blob(const_cast<std::byte*>(view.bytes.data()), view.info.shape, at::kDouble)
        .clone();
}

// Measures the cost of loading, with only the weights in memory.
Json check_loading(const fs::path& directory, const ModelSetup& setup, at::ScalarType dtype) {
    const double before = peak_mib();
    const auto start = std::chrono::steady_clock::now();
    Chunk model(setup.config, whole_chunk(setup.config),
                {.dtype = dtype, .draw = false, .gradients = false});
    load_weights(directory, model.parameters());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::size_t largest = 0;
    for (const at::Tensor& weight : model.parameters().weight)
        largest = std::max(largest, weight.nbytes());
    return {{"load_seconds", took.count()},
            {"load_peak_mib", peak_mib()},
            {"before_mib", before},
            {"model_mib", static_cast<double>(model.parameters().flat_weight.nbytes()) / (1 << 20)},
            {"largest_mib", static_cast<double>(largest) / (1 << 20)}};
}

void check_gradients(Chunk& model, const at::Tensor& ids, const fs::path& told, double loss,
                     Json& json) {
    at::Tensor targets = at::full_like(ids, ops::kIgnored);
    targets.narrow(1, 0, ids.size(1) - 1).copy_(ids.narrow(1, 1, ids.size(1) - 1));
    const double count = static_cast<double>(ids.size(0) * (ids.size(1) - 1));
    const GradReady ready = [](int) {};
    model.begin_step();
    const at::Tensor ours = model.forward(0, {ids, targets}, {}, {.scale = 1 / count}, ready);
    model.backward_input(0, {}, WeightHalves::Now, ready);
    model.backward_weight(0, ready);
    json["loss"] = ours.item<double>();
    json["loss_error"] = std::abs(ours.item<double>() - loss) / loss;
    const Parameters& p = model.parameters();
    Parameters expected = make_parameters(
        p.specs, {.dtype = p.flat_weight.scalar_type(), .draw = false, .gradients = false});
    load_weights(told / "grad", expected);
    double worst = 0;
    for (std::size_t i = 0; i < p.specs.size(); ++i) {
        const double one = error(p.grad[i], expected.weight[i]);
        if (one >= worst) json["worst_gradient"] = p.specs[i].name;
        worst = std::max(worst, one);
    }
    json["gradient_error"] = worst;
}

int main(const fs::path& directory, const std::string& precision, const fs::path& told) {
    const c10::InferenceMode no_autograd;
    const at::ScalarType dtype = precision == "fp64" ? at::kDouble : at::kFloat;
    const ModelSetup setup = setup_model(directory);
    Json json = check_loading(directory, setup, dtype);
    Chunk model(setup.config, whole_chunk(setup.config), {.dtype = dtype, .draw = false});
    load_weights(directory, model.parameters());
    const auto file = tensor::SafetensorsFile::open(told / "told.safetensors").value();
    const at::Tensor ids = read(file, "ids").to(at::kLong);
    json["precision"] = precision;
    json["logits_error"] = error(model.logits(ids), read(file, "logits"));
    check_gradients(model, ids, told, read(file, "loss").item<double>(), json);
    std::printf("%s\n", json.dump().c_str());
    return 0;
}

}  // namespace
}  // namespace roll::train

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: model_check MODEL fp32|fp64 TOLD\n");
        return 2;
    }
    try {
        return roll::train::main(argv[1], argv[2], argv[3]);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "error: %s\n", e.what());
        return 1;
    }
}
