// Estimates the time of a step and the memory of a rank for a layout.
//
// A time is a number of FLOPs: the FLOPs that a rank could compute in that time. Sending a byte
// takes the time of kFlopsPerByte FLOPs, and a rank computes nothing during a transfer. A matrix
// product of n rows takes the time of n + kRowsMore rows, because small products are slow.
#pragma once

#include <cstdint>
#include <string>

#include "common/spec/train/model.hpp"
#include "common/spec/train/train.hpp"

namespace roll::train {

// kFlopsPerByte and kRowsMore fit CPU ranks that are connected by loopback or a 10 Gbit/s network,
// and GPU ranks in one node.
constexpr double kFlopsPerByte = 64;
constexpr double kRowsMore = 64;

struct LayoutScore {
    double time = 0;  // estimated time in FLOPs
    double bubble = 0;
    std::int64_t memory = 0;  // bytes of the rank that needs the most
    std::int64_t sent = 0;    // bytes that a rank sends in a step
    std::int64_t microbatches = 0;
    std::string schedule = {};  // name of the schedule; empty in an estimate
};

// Bytes per parameter of a job, as means over the whole model, without sharing among ranks.
struct JobBytes {
    double weights = 0;    // weights in the form in which forward uses them
    double unsplit = 0;    // part of `weights` that ZeRO-3 does not split
    double main = 0;       // the optimizer's copy of the weights
    double gradients = 0;  // gradients of the trained parameters
    double states = 0;     // state of the optimizer
    double trained = 0;    // share of the parameters that are trained
    double unit = 0;       // bytes of all weights that ZeRO-3 gathers at once, not per parameter
};
JobBytes job_bytes(const spec::TrainSpec& spec, const spec::ModelConfig& model, bool on_gpu);

// Returns a score in a few microseconds, without a simulation of the pipeline. `spec` has the
// layout. `bytes`: the result of job_bytes(); it does not depend on the layout.
LayoutScore estimate(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                     const JobBytes& bytes);

// Returns the score of the simulated pipeline. Throws RankFailure(invalid) if the job could not
// run.
LayoutScore measure(const spec::TrainSpec& spec, const spec::ModelConfig& model, bool on_gpu);

// Returns the approximate number of actions that measure() simulates.
std::int64_t work_of(const spec::TrainSpec& spec);

}  // namespace roll::train
