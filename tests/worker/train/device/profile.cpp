#include "tests/worker/train/device/profile.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <utility>

#include <ATen/Context.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include "worker/train/ops/attention.hpp"
#include "worker/train/ops/linear.hpp"

namespace roll::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
    return std::ranges::any_of(
        parts, [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

void sort_costs(std::vector<Cost>& costs) {
    std::ranges::sort(costs, std::ranges::greater{}, &Cost::seconds);
}

// Returns the seconds of one call, the fastest of a few. Reads an element, so that a GPU has ended.
double time_call(const std::function<at::Tensor()>& call) {
    constexpr int kCalls = 3;
    double best = 1e9;
    for (int i = 0; i <= kCalls; ++i) {
        const auto start = Clock::now();
        call().flatten()[0].item<double>();
        if (i > 0) best = std::min(best, seconds_since(start));
    }
    return best;
}

}  // namespace

Work work_of(std::string_view kernel) {
    if (has_any(kernel, {"flash", "fmha", "softmax_lse"})) return Work::Attention;
    if (has_any(kernel, {"gemm", "nvjet", "cutlass", "xmma", "gemv", "splitK", "cublas"}))
        return Work::Product;
    return Work::Other;
}

std::int64_t covered(std::vector<Interval> intervals) {
    std::ranges::sort(intervals, {}, &Interval::begin);
    std::int64_t sum = 0, end = 0;
    bool first = true;
    for (const Interval& interval : intervals) {
        const std::int64_t begin = first ? interval.begin : std::max(interval.begin, end);
        if (interval.end > begin) sum += interval.end - begin;
        end = first ? interval.end : std::max(end, interval.end);
        first = false;
    }
    return sum;
}

std::optional<Profile> profile_kernels(const std::function<void()>& step, int steps) {
    namespace profiler = torch::autograd::profiler;
    using torch::profiler::impl::ActivityType;
    const profiler::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
    std::set<ActivityType> activities = {ActivityType::CPU};
    if (at::hasCUDA()) activities.insert(ActivityType::CUDA);
    profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(config, activities);
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) step();
    const double seconds = seconds_since(start) / steps;
    const auto result = profiler::disableProfiler();
    std::vector<Interval> busy;
    std::map<std::string, double> by_name;
    Profile profile{"GPU kernels, recorded through CUPTI"};
    for (const profiler::KinetoEvent& event : result->events()) {
        if (event.deviceType() != at::kCUDA) continue;
        const auto begin = static_cast<std::int64_t>(event.startNs()),
                   end = static_cast<std::int64_t>(event.endNs());
        busy.push_back({begin, end});
        const std::string name = event.name();
        const double each = static_cast<double>(end - begin) * 1e-9 / steps;
        const Work work = work_of(name);
        (work == Work::Product     ? profile.products
         : work == Work::Attention ? profile.attention
                                   : profile.other) += each;
        by_name[name] += each;
    }
    if (busy.empty()) return std::nullopt;
    profile.host = std::max(0.0, seconds - static_cast<double>(covered(busy)) * 1e-9 / steps);
    for (auto& [name, each] : by_name) profile.costs.push_back({name, each});
    profile.costs.push_back({"the GPU waits for the host", *profile.host});
    sort_costs(profile.costs);
    return profile;
}

Profile profile_operators(const spec::ModelConfig& model, std::int64_t batch,
                          std::int64_t positions, const at::TensorOptions& options,
                          double step_seconds) {
    const c10::InferenceMode no_autograd;
    const auto random = [&](at::IntArrayRef sizes) { return at::randn(sizes, options); };
    const std::int64_t rows = batch * positions, hidden = model.hidden, layers = model.layers;
    const std::int64_t heads = model.heads, groups = model.kv_heads, dim = model.head_dim;
    Profile profile{"products and attention timed alone at the sizes of a micro-batch"};
    const auto product = [&](const char* name, std::int64_t in, std::int64_t out,
                             std::int64_t times) {
        const at::Tensor x = random({rows, in}), w = random({out, in}), dy = random({rows, out}),
                         dw = random({out, in});
        const double each = time_call([&] { return ops::linear(x, w); }) +
                            time_call([&] { return ops::linear_backward_input(dy, w); }) +
                            time_call([&] {
                                ops::linear_backward_weight(dy, x, dw, ops::Sum::Replace);
                                return dw;
                            });
        profile.products += each * static_cast<double>(times);
        profile.costs.push_back(
            {std::string("products of ") + name, each * static_cast<double>(times)});
    };
    product("the attention's inputs", hidden, (heads + 2 * groups) * dim, layers);
    product("the attention's output", heads * dim, hidden, layers);
    product("gate and up", hidden, 2 * model.intermediate, layers);
    product("down", model.intermediate, hidden, layers);
    product("the output layer", hidden, model.vocab, 1);
    const ops::Heads qkv{random({batch, heads, positions, dim}),
                         random({batch, groups, positions, dim}),
                         random({batch, groups, positions, dim})};
    const at::Tensor d_o = random({batch, positions, heads * dim});
    ops::AttentionSaved saved;
    const double forward = time_call([&] { return ops::attention(qkv, {}, saved); }),
                 backward = time_call([&] { return ops::attention_backward(d_o, saved).q_BHTD; });
    const auto times = static_cast<double>(layers);
    profile.attention = (forward + backward) * times;
    profile.costs.push_back({"attention, forward", forward * times});
    profile.costs.push_back({"attention, backward", backward * times});
    profile.other = std::max(0.0, step_seconds - profile.products - profile.attention);
    profile.costs.push_back({"all other work of a step", profile.other});
    sort_costs(profile.costs);
    return profile;
}

}  // namespace roll::train
