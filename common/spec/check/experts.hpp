// Checks that a job can train a model with experts. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// The settings of a job that matter for a model with experts.
struct ExpertUse {
    std::string objective;  // its name in a job file
    int cp = 1;
    bool has_lora = false;
    bool on_gpu = false;
};

// Returns a problem for each setting that does not work with experts.
std::vector<Problem> expert_problems(const ExpertUse& use);

}  // namespace roll::spec
