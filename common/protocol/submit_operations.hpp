// The operations that queue a job, or predict what would happen to a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/protocol/arguments.hpp"

namespace roll::protocol {

struct SubmitArgs {
    static constexpr Operation kOperation{"submit", Access::Submit, Answering::AfterTurn,
                                          "roll.submit/1", "Queues a job, an array or a chain."};
    std::string key{};
    std::string user{};
    Json spec{};
    Json job{};
    std::string base{};
    bool strict = false;
};
struct SubmitReply {
    std::uint64_t id = 0;
    std::string name{};
    std::string output{};
    std::uint64_t jobs = 0;
    bool repeated = false;
    std::optional<Json> cannot_run{};
};
struct ForecastArgs {
    static constexpr Operation kOperation{"forecast", Access::Read, Answering::AtOnce,
                                          "roll.forecast/1",
                                          "Tells what would happen to a job if it were queued."};
    std::string key{};
    std::string user{};
    Json spec{};
    Json job{};
    std::string base{};
};

// clang-format off
template <class V> void fields(V& v, SubmitArgs& a) {
    v.needs("key", a.key, "idempotency key, 1 to 256 bytes; the same key returns the same job");
    v("user", a.user, "owner of the job; only the operator may name another user");
    v("spec", a.spec, "specification of the job, as rollctl computes it from a job file");
    v("job", a.job, "instead of `spec`: the content of a job file (docs/job-file.md)");
    v("base", a.base, "absolute path of the directory from which relative paths in `job` start");
    v("strict", a.strict, "reject a job that neither a worker nor an allocation can ever run");
}
template <class V> void fields(V& v, SubmitReply& r) {
    v("id", r.id, "number of the job, or of the first job");
    v("name", r.name, "name of the job");
    v("output", r.output, "output directory");
    v("jobs", r.jobs, "number of jobs that were queued");
    v("repeated", r.repeated, "true: the key was already used, so nothing was queued");
    v("cannot_run", r.cannot_run, "{why, remedy} if neither a worker nor an allocation can ever run the job");
}
template <class V> void fields(V& v, ForecastArgs& a) {
    v("key", a.key, "not used");
    v("user", a.user, "owner of the job");
    v("spec", a.spec, "specification of the job, as rollctl computes it from a job file");
    v("job", a.job, "instead of `spec`: the content of a job file (docs/job-file.md)");
    v("base", a.base, "absolute path of the directory from which relative paths in `job` start");
}
// clang-format on

}  // namespace roll::protocol
