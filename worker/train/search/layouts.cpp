#include "worker/train/search/layouts.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "common/counted.hpp"
#include "common/spec/check/pipeline.hpp"
#include "common/spec/check/tensor.hpp"

namespace roll::train {
namespace {

constexpr std::int64_t kLargestMicrobatch = 256;
// Number of group sizes that are tried. Larger groups take more memory and are not faster.
constexpr std::size_t kGroups = 4;

std::vector<int> divisors(int number) {
    std::vector<int> all;
    for (int i = 1; i <= number; ++i)
        if (number % i == 0) all.push_back(i);
    return all;
}

std::string first_problem(const std::vector<spec::Problem>& problems) {
    return problems.front().path + " " + problems.front().message;
}

// Collects the layouts while the axes are chosen one after the other.
class Lister {
  public:
    Lister(const spec::TrainSpec& spec, const spec::ModelConfig& model, const SearchSpace& space)
        : spec_(spec),
          model_(model),
          space_(space) {}

    LegalLayouts all() {
        const int tp = spec_.parallel.tp, pp = spec_.parallel.pp;
        const int ranks = space_.ranks / spec_.parallel.cp;  // those that share no sequence
        for (const int i : space_.tp ? divisors(space_.ranks_per_node) : std::vector{tp})
            if (ranks % i == 0 && fits_tensors(i))
                for (const int j : space_.pp ? divisors(ranks / i) : std::vector{pp})
                    if (ranks % (i * j) == 0) add_mesh(i, j);
        for (const auto& [stages, rule] : impossible_)
            if (!possible_.contains(stages)) refuse("pp " + std::to_string(stages), rule);
        return std::move(found_);
    }

  private:
    void refuse(const std::string& value, const std::string& rule) {
        found_.refused.push_back(value + ": " + rule);
    }

    bool fits_tensors(int tp) {
        spec::ParallelSpec parallel = spec_.parallel;
        parallel.tp = tp;
        if (space_.sequence) parallel.sequence = false;
        const auto problems = spec::tensor_problems(parallel, spec::tensor_sizes(model_));
        if (!problems.empty()) refuse("tp " + std::to_string(tp), first_problem(problems));
        return problems.empty();
    }

    void add_mesh(int tp, int pp) {
        const int dp = space_.ranks / (tp * pp * spec_.parallel.cp);
        if (space_.dp > 0 && dp != space_.dp) return;
        std::vector<int> chunks{spec_.parallel.vpp};
        const spec::Schedule schedule = spec_.parallel.schedule;
        const bool is_v =
            schedule == spec::Schedule::ZeroBubbleV || schedule == spec::Schedule::DualPipeV;
        if (space_.vpp && is_v) {
            chunks = {2};
        } else if (space_.vpp) {
            chunks = {1};
            for (int vpp = 2; pp > 1 && std::int64_t{vpp} * pp <= model_.layers; ++vpp)
                if (model_.layers % (std::int64_t{vpp} * pp) == 0) chunks.push_back(vpp);
        }
        for (const spec::BatchPhase& phase : spec_.batch_phases)
            if (phase.size % dp != 0)
                return refuse("dp " + std::to_string(dp),
                              "train.batch_size_schedule has batches "
                              "of " +
                                  counted(phase.size, "sample") +
                                  ", which is not a multiple of dp");
        if (spec_.global_batch_size % dp != 0)
            return refuse("dp " + std::to_string(dp), "train.global_batch_size " +
                                                          std::to_string(spec_.global_batch_size) +
                                                          " is not a multiple of dp");
        const std::int64_t samples = spec_.global_batch_size / dp;
        for (const int vpp : chunks)
            for (const std::int64_t size : microbatches(samples))
                if (samples % size == 0 && divides_phases(size * dp))
                    add_schedules(
                        {.dp = dp, .tp = tp, .pp = pp, .vpp = vpp, .micro_batch_size = size});
    }

    std::vector<std::int64_t> microbatches(std::int64_t samples) const {
        if (!space_.micro_batch_size) return {spec_.micro_batch_size};
        std::vector<std::int64_t> sizes;
        for (std::int64_t i = 1; i <= std::min(samples, kLargestMicrobatch); i *= 2)
            sizes.push_back(i);
        if (samples <= kLargestMicrobatch && samples != sizes.back()) sizes.push_back(samples);
        return sizes;
    }

    // Returns true if the batch size of every phase of the batch size schedule is a multiple of
    // `rows`, the number of samples in one micro-batch of all replicas.
    bool divides_phases(std::int64_t rows) const {
        return std::ranges::all_of(spec_.batch_phases, [&](const spec::BatchPhase& phase) {
            return phase.size % rows == 0;
        });
    }

    std::vector<spec::Problem> stage_problems(const Layout& layout, std::int64_t batch_size) const {
        spec::ParallelSpec parallel = spec_.parallel;
        parallel.pp = layout.pp;
        parallel.vpp = layout.vpp;
        parallel.schedule = layout.schedule;
        parallel.group = layout.group;
        const std::int64_t rows = layout.micro_batch_size * layout.dp;
        return spec::pipeline_problems(
            parallel, {.microbatches = batch_size / rows, .layers = model_.layers, .rows = rows});
    }

    std::vector<spec::Problem> all_problems(const Layout& layout) const {
        std::vector<spec::Problem> problems = stage_problems(layout, spec_.global_batch_size);
        for (const spec::BatchPhase& phase : spec_.batch_phases)
            if (problems.empty()) problems = stage_problems(layout, phase.size);
        return problems;
    }

    bool fits_stages(const Layout& layout) {
        const std::vector<spec::Problem> problems = all_problems(layout);
        if (problems.empty())
            possible_.insert(layout.pp);
        else
            impossible_.try_emplace(layout.pp, first_problem(problems));
        return problems.empty();
    }

    // Adds the layout with interleaved schedules of the smallest groups that are legal. A group of
    // pp micro-batches is the default, for which `group` is 0.
    void add_interleaved(Layout layout, std::vector<Layout>& all) const {
        layout.schedule = spec::Schedule::Interleaved;
        all.push_back(layout);
        const std::int64_t rows = layout.micro_batch_size * layout.dp;
        const std::int64_t microbatches = spec_.global_batch_size / rows;
        std::size_t more = kGroups - 1;
        for (layout.group = layout.pp + 1; layout.group <= microbatches && more > 0; ++layout.group)
            if (all_problems(layout).empty()) {
                all.push_back(layout);
                --more;
            }
    }

    // Returns the layout with each schedule that it could have. Does not check all rules.
    std::vector<Layout> with_schedules(Layout layout) const {
        layout.schedule = spec_.parallel.schedule;
        layout.group = spec_.parallel.group;
        if (!space_.schedule || layout.pp == 1) return {layout};
        std::vector<Layout> all;
        const auto add = [&](spec::Schedule schedule) {
            all.push_back(layout);
            all.back().schedule = schedule;
        };
        if (layout.vpp == 1) {
            add(spec::Schedule::OneForwardOneBackward);
            add(spec::Schedule::ZeroBubbleH1);
        } else if (spec_.microbatch_limit > 0) {
            // Splitting changes the number of micro-batches. The size of a group may then not be
            // valid.
            add(spec::Schedule::Auto);
        } else {
            add_interleaved(layout, all);
        }
        if (layout.vpp == 2 && space_.vpp) {
            add(spec::Schedule::ZeroBubbleV);
            add(spec::Schedule::DualPipeV);
        }
        return all;
    }

    void add_schedules(const Layout& layout) {
        for (const Layout& one : with_schedules(layout))
            if (fits_stages(one)) add_details(one);
    }

    void add_details(Layout layout) {
        using enum spec::Recompute;
        std::vector<int> zeros{spec_.parallel.zero};
        if (space_.zero)
            zeros = layout.dp * spec_.parallel.cp > 1 ? std::vector{0, 1, 2, 3} : std::vector{0};
        std::vector sequences{spec_.parallel.sequence};
        if (space_.sequence)
            sequences = layout.tp > 1 ? std::vector{false, true} : std::vector{false};
        std::vector recomputes{spec_.parallel.recompute};
        if (space_.recompute) recomputes = {None, Attention, AttentionMlp, Full};
        for (const int zero : zeros)
            for (const bool sequence : sequences)
                for (const spec::Recompute recompute : recomputes) {
                    layout.zero = zero;
                    layout.sequence = sequence;
                    layout.recompute = recompute;
                    found_.layouts.push_back(layout);
                }
    }

    const spec::TrainSpec& spec_;
    const spec::ModelConfig& model_;
    const SearchSpace& space_;
    LegalLayouts found_;
    std::set<int> possible_;  // values of pp that some layout has
    // maps values of pp to the first rule that each value broke
    std::map<int, std::string> impossible_;
};

}  // namespace

bool same_mesh(const Layout& a, const Layout& b) {
    return a.dp == b.dp && a.tp == b.tp && a.pp == b.pp && a.vpp == b.vpp &&
           a.micro_batch_size == b.micro_batch_size;
}

void set_layout(spec::TrainSpec& spec, const Layout& layout) {
    spec::ParallelSpec& p = spec.parallel;
    p.dp = layout.dp;
    p.tp = layout.tp;
    p.pp = layout.pp;
    p.vpp = layout.vpp;
    p.sequence = layout.sequence;
    p.zero = layout.zero;
    p.recompute = layout.recompute;
    p.schedule = layout.schedule;
    p.group = layout.group;
    spec.micro_batch_size = layout.micro_batch_size;
}

std::string layout_text(const Layout& layout) {
    std::string text = "dp " + std::to_string(layout.dp) + ", tp " + std::to_string(layout.tp);
    if (layout.sequence) text += " with sequence";
    text += ", pp " + std::to_string(layout.pp);
    if (layout.vpp > 1) text += ", vpp " + std::to_string(layout.vpp);
    if (layout.schedule != spec::Schedule::Auto)
        text += std::string(", schedule ") + spec::name_of(layout.schedule);
    if (layout.group > 0) text += ", group " + std::to_string(layout.group);
    if (layout.zero > 0) text += ", zero " + std::to_string(layout.zero);
    if (layout.recompute != spec::Recompute::None)
        text += std::string(", recompute ") + spec::name_of(layout.recompute);
    return text + ", micro_batch_size " + std::to_string(layout.micro_batch_size);
}

LegalLayouts legal_layouts(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                           const SearchSpace& space) {
    return Lister(spec, model, space).all();
}

}  // namespace roll::train
