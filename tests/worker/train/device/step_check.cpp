#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <ATen/ATen.h>

#include "common/json.hpp"
#include "tests/worker/train/device/checks.hpp"
#include "tests/worker/train/device/profile.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/process/memory.hpp"
#include "worker/train/report/peak.hpp"

namespace roll::train {
namespace {

constexpr int kWarmUp = 2;
constexpr std::size_t kCosts = 12;  // printed costs

OrderedJson profile_json(const Profile& profile) {
    OrderedJson json = {{"method", profile.method},
                        {"products", profile.products},
                        {"attention", profile.attention},
                        {"other", profile.other},
                        {"host", profile.host ? OrderedJson(*profile.host) : OrderedJson()}};
    json["costs"] = OrderedJson::array();
    for (const Cost& cost : profile.costs) {
        if (json["costs"].size() == kCosts) break;
        json["costs"].push_back({{"name", cost.name}, {"seconds", cost.seconds}});
    }
    return json;
}

}  // namespace

void measure_steps(const Backend& backend, const std::string& document, int steps) {
    using Clock = std::chrono::steady_clock;
    const spec::TrainSpec spec = need(spec::train_spec(document));
    const spec::ModelConfig model = setup_model(spec, {}).config;
    const at::ScalarType type = dtype_of(spec.precision);
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const plan::PipelineSchedule schedule = plan::one_forward_one_backward(1, 1);
    TrainStep trainer(model, schedule, {self, self},
                      {.init = {.dtype = type, .device = backend.device}});
    const std::int64_t batch = spec.micro_batch_size, positions = spec.seq_length;
    const at::Tensor ids = at::randint(model.vocab, {batch, positions + 1});
    const Microbatch data[] = {
        {ids.narrow(1, 0, positions).contiguous(), ids.narrow(1, 1, positions).contiguous()}};
    std::vector<double> seconds, losses;
    const auto step = [&] { losses.push_back(trainer.run(data, 1e-4).loss); };
    for (int i = 0; i < kWarmUp + steps; ++i) {
        const auto start = Clock::now();
        step();
        const std::chrono::duration<double> took = Clock::now() - start;
        if (i >= kWarmUp) seconds.push_back(took.count());
    }
    const std::int64_t peak_bytes = backend.memory ? backend.memory().peak : process_memory().peak;
    std::ranges::sort(seconds);
    const double median = seconds[seconds.size() / 2];
    const auto kind = at::TensorOptions(backend.device).dtype(type);
    std::optional<Profile> profile;
    if (!backend.device.is_cpu()) profile = profile_kernels(step, 3);
    if (!profile) profile = profile_operators(model, batch, positions, kind, median);
    const plan::FlopsPerToken flops = plan::flops_per_token(model, positions);
    const double rate = static_cast<double>(batch * positions) / median,
                 peak = measure_peak_flops(kind);
    const OrderedJson json = {{"parameters", plan::parameter_count(model)},
                              {"batch", batch},
                              {"positions", positions},
                              {"steps", steps},
                              {"seconds", median},
                              {"seconds_min", seconds.front()},
                              {"seconds_max", seconds.back()},
                              {"tokens_per_second", rate},
                              {"flops_causal", rate * flops.causal},
                              {"flops_full", rate * flops.full},
                              {"peak_measured", peak},
                              {"memory_peak_bytes", peak_bytes},
                              {"first_loss", losses.front()},
                              {"last_loss", losses.back()},
                              {"profile", profile_json(*profile)}};
    std::printf("%s\n", json.dump().c_str());
}

}  // namespace roll::train
