// Rules for the keys of a train job, called by impossible_sizes() (sizes.hpp). Each function
// returns a problem for each rule that the document breaks. It ignores missing keys and values of a
// wrong type, because the schema's checker reports these. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"
#include "common/spec/train/train.hpp"

namespace roll::spec {

// Checks train.spike and train.faults.
std::vector<Problem> bad_step_problems(const Json& document);

// Checks train.batch_size_schedule, train.balance and train.microbatch_limit. `dp`: data-parallel
// size; nullopt: unknown.
std::vector<Problem> batch_problems(const Json& document, std::optional<std::int64_t> dp);

// Checks how samples are drawn from the files: data.weights, data.curriculum, data.order,
// data.split, data.packing and data.truncate.
std::vector<Problem> blend_problems(const Json& document);

// Returns a problem for each fault whose rank or step the job does not have. `ranks`: number of
// ranks.
std::vector<Problem> fault_problems(const TrainSpec& spec, int ranks);

// Returns a warning for each key that has no effect. These keys are not refused, because --set or a
// sweep may turn off what they belong to.
std::vector<std::string> idle_warnings(const TrainSpec& spec);

// Checks train.loss_scale.
std::vector<Problem> loss_scale_problems(const Json& document);

// Checks train.early_stop, train.best, train.sample and train.evaluation.
std::vector<Problem> measure_problems(const Json& document);

// Checks the keys of `model` that cannot be combined with model.from, and the keys that need
// model.from.
std::vector<Problem> model_source_problems(const Json& document);

// Checks for keys of train.optimizer that the optimizer's kind does not have, and for groups that
// set nothing or set both lr and lr_scale.
std::vector<Problem> optimizer_problems(const Json& document);

// Checks `objective`, and the keys elsewhere in the job that cannot be used with the objective.
std::vector<Problem> preference_problems(const Json& document);

// Checks the names of the validation sets, and that at most one set is a fraction of the training
// files.
std::vector<Problem> valid_set_problems(const Json& document);

}  // namespace roll::spec
