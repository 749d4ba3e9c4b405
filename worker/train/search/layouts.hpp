// Lists the layouts that a job could have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/spec/train/model.hpp"
#include "common/spec/train/train.hpp"

namespace roll::train {

// The settings that the search may choose. The job gives all other settings.
struct SearchSpace {
    bool tp = false, pp = false, vpp = false, sequence = false, zero = false, recompute = false;
    bool schedule = false;  // the schedule of the pipeline and the size of its groups
    bool micro_batch_size = false;
    int dp = 0;  // data-parallel size that the job gives; 0: any
    int ranks = 1, ranks_per_node = 1;
    bool on_gpu = false;
};

struct Layout {
    int dp = 1, tp = 1, pp = 1, vpp = 1;
    bool sequence = false;
    int zero = 0;
    spec::Recompute recompute = spec::Recompute::None;
    spec::Schedule schedule = spec::Schedule::Auto;
    int group = 0;  // see spec::ParallelSpec::group
    std::int64_t micro_batch_size = 1;
    friend bool operator==(const Layout&, const Layout&) = default;
};

// Returns whether two layouts differ only in `sequence`, `zero`, `recompute` and the schedule.
bool same_mesh(const Layout& a, const Layout& b);

// Sets the layout in the spec.
void set_layout(spec::TrainSpec& spec, const Layout& layout);

// Returns the layout as text, such as "dp 2, tp 2, pp 4, vpp 2, zero 1, micro_batch_size 8".
std::string layout_text(const Layout& layout);

struct LegalLayouts {
    std::vector<Layout> layouts;
    // For each value of an axis that breaks a rule: the value and the rule, such as "tp 3: ..."
    std::vector<std::string> refused;
};

// Returns all layouts of `space` with which the job could run, in a fixed order. A micro-batch has
// a power of two of samples, or all samples of a replica. ZB-V and DualPipeV are listed only if the
// search also chooses vpp. Does not check the memory.
LegalLayouts legal_layouts(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                           const SearchSpace& space);

}  // namespace roll::train
