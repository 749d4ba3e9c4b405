// Computes the pipeline schedule of a training job with `roll-rank plan`, as `rollctl plan` does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::http {

// Runs `roll-rank plan` on the document of a training job. Returns roll.plan/1. Blocks for up to 30
// seconds. Fails with Unavailable if this installation has no roll-rank.
Result<Json> run_plan(const Json& document);

// Keeps the schedules of jobs. A job's schedule never changes. The class is thread-safe.
class Pipelines {
  public:
    static constexpr std::size_t kKeptMax = 64;
    using Run = std::function<Result<Json>(const Json& document)>;
    using Text = std::shared_ptr<const std::string>;

    explicit Pipelines(Run run) : run_(std::move(run)) {}

    // Returns roll.pipeline/1 {pipeline, mesh} of a job as text. Fails with Unavailable while the
    // schedule of another job is computed, and with InvalidArgument if the job has no pipeline.
    Result<Text> of(std::uint64_t id, const Json& document);

  private:
    Run run_;
    std::mutex running_;  // held while run_ runs
    std::mutex mutex_;    // guards kept_
    std::map<std::uint64_t, Result<Text>> kept_;
};

}  // namespace roll::http
