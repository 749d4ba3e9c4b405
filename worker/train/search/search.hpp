// Chooses the layout of a job: the fastest layout that fits into the memory of a rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/train/search/layouts.hpp"
#include "worker/train/search/score.hpp"

namespace roll::train {

struct ScoredLayout {
    Layout layout;
    LayoutScore score;
};

struct SearchResult {
    std::vector<ScoredLayout> best;     // at most kBest, the fastest first; empty: nothing fits
    std::vector<ScoredLayout> refused;  // the fastest layouts that need too much memory
    std::vector<std::string> rules;     // values of axes that the job cannot have, and the reasons
    std::size_t legal = 0, simulated = 0;  // numbers of legal and of simulated layouts
    ScoredLayout smallest;                 // the simulated layout that needs the least memory
};

constexpr std::size_t kBest = 5;

// Searches `space`. `limit`: bytes that a rank may need; 0: no limit. Simulates the layouts in the
// order of their estimates, the best first, until a fixed amount of work is done. Therefore, the
// same job always gets the same layout. Lists only the best layout for each mesh and micro-batch
// size. Throws RankFailure(invalid) if no layout is legal.
SearchResult search_layouts(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                            const SearchSpace& space, std::int64_t limit);

}  // namespace roll::train
