#include "worker/convert/command/launch.hpp"

#include <chrono>
#include <utility>

#include "common/counted.hpp"
#include "common/files.hpp"
#include "common/protocol/rank.hpp"
#include "common/spec/train/convert.hpp"
#include "worker/convert/convert.hpp"
#include "worker/convert/read/job_state.hpp"
#include "worker/formats/peft.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

Result<fs::path> source_of(const spec::ConvertSpec& spec, const protocol::Launch& launch,
                           const LaunchEnvironment& environment) {
    if (!spec.source.empty()) return fs::path(spec.source);
    std::vector<fs::path> newest_first;
    for (const protocol::WrittenCheckpoint& checkpoint : launch.checkpoints)
        if (!checkpoint.deleted) newest_first.emplace_back(checkpoint.directory);
    if (newest_first.empty())
        return fail(
            ErrorCode::InvalidArgument,
            "the job has written no checkpoint that still exists; there is nothing to convert");
    return environment.choose(newest_first, spec.best);
}

// Returns true if the target may be overwritten. The first attempt may overwrite it only if the job
// allows this, because a target that exists before the first attempt belongs to the user. A later
// attempt may always overwrite it, because an earlier attempt may have finished the target and died
// before rolld recorded the success. Fails with InvalidArgument if the first attempt finds a target
// that it may not overwrite.
Result<bool> may_overwrite(const spec::ConvertSpec& spec, const protocol::Launch& launch) {
    if (spec.overwrite || launch.node_rank > 0 || launch.attempt.token.attempt > 1) return true;
    std::error_code error;
    if (fs::exists(spec.target, error) && !fs::is_empty(spec.target, error))
        return fail(ErrorCode::InvalidArgument, spec.target + " already exists",
                    "change `target`, or set `overwrite` to true");
    return false;
}

// Changes a request whose source is an adapter to a request that merges this adapter into its base
// model. The adapter's config names the base model and the adapters on which this adapter was
// trained. The request merges those adapters first.
Result<void> merge_into_base(Request& request) {
    if (!request.state.empty()) {
        ROLL_TRY(request.source,
                 averaged_adapter(request.source, std::exchange(request.state, {})));
    }
    ROLL_TRY(const Json config, formats::read_adapter_config(request.source));
    const Json base = config.value("base_model_name_or_path", Json());
    if (!base.is_string())
        return fail(ErrorCode::InvalidArgument,
                    request.source.string() +
                        "/adapter_config.json has no base_model_name_or_path, so the adapter has "
                        "no known base model; merge it with rollctl merge BASE ADAPTER TARGET");
    request.adapters.clear();
    for (const Json& below : config.value(formats::kBaseAdapters, Json::array()))
        if (below.is_string()) request.adapters.emplace_back(below.get<std::string>());
    request.adapters.push_back(request.source);
    request.source = base.get<std::string>();
    return {};
}

Result<Request> request_for(const protocol::Launch& launch, const LaunchEnvironment& environment) {
    ROLL_TRY(const spec::ConvertSpec spec, spec::convert_spec(launch.document));
    ROLL_TRY(Request request, request_of(spec));
    ROLL_TRY(request.source, source_of(spec, launch, environment));
    if (spec.merge) ROLL_TRY_VOID(merge_into_base(request));
    ROLL_TRY(request.overwrite, may_overwrite(spec, launch));
    request.threads = environment.threads;
    request.part = {
        launch.node_rank, launch.nodes,
        fmt::format("{}.{}", launch.attempt.job.value, to_string(launch.attempt.token))};
    return request;
}

// Reports progress, with at most one line per second.
class ProgressReporter {
  public:
    explicit ProgressReporter(const LaunchEnvironment& environment) : environment_(environment) {}
    void operator()(std::int64_t done, std::int64_t total) {
        const auto now = std::chrono::steady_clock::now();
        if (now < next_ && done < total) return;
        next_ = now + std::chrono::seconds(1);
        const double seconds = std::chrono::duration<double>(now - begin_).count();
        Json progress{{"phase", "convert"}, {"bytes", done}, {"bytes_total", total}};
        if (done > 0)
            progress["eta_s"] =
                seconds * static_cast<double>(total - done) / static_cast<double>(done);
        environment_.report(
            protocol::encode(protocol::Report(protocol::Progress{progress.dump()})));
    }

  private:
    const LaunchEnvironment& environment_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
    std::chrono::steady_clock::time_point next_{};
};

Result<void> convert_launch(const fs::path& file, const LaunchEnvironment& environment) {
    ROLL_TRY(const std::string text, read_file(file));
    ROLL_TRY(const protocol::Launch launch, protocol::decode_launch(text));
    environment.report(protocol::encode(protocol::Report(protocol::Ready{})));
    ROLL_TRY(const families::Families families, families::Families::load());
    ROLL_TRY(const Request request, request_for(launch, environment));
    Hooks hooks = environment.hooks;
    if (request.part.leads()) hooks.progress = ProgressReporter(environment);
    ROLL_TRY(const Report report, convert(request, families, hooks));
    for (const std::string& line : sentences(report.disagreement))
        fmt::print("warning: {}\n", line);
    if (!request.part.leads()) return {};
    fmt::print("{} -> {}: {} parameters, {}, {} bytes at {}\n", request.source.string(),
               name_of(report.to), report.parameters, counted(report.tensors, "tensor"),
               report.bytes, report.target.string());
    environment.report(
        protocol::encode(protocol::Report(protocol::ExportDone{report.target.string()})));
    return {};
}

int exit_status(ErrorCode code, bool stopped) {
    switch (code) {
        case ErrorCode::InvalidArgument:
        case ErrorCode::NotFound: return protocol::kExitInvalid;
        case ErrorCode::Refused: return protocol::kExitRefused;
        case ErrorCode::Unavailable:
            return stopped ? protocol::kExitYielded : protocol::kExitPeerLost;
        case ErrorCode::Corrupt:
        case ErrorCode::Failed: return 1;
    }
    return 1;
}

}  // namespace

int run_launch(const fs::path& file, const LaunchEnvironment& environment) {
    auto done = convert_launch(file, environment);
    if (const auto read = check_mapped_reads(); !read) done = tl::unexpected(read.error());
    if (done) return 0;
    fmt::print(stderr, "error: {}\n", done.error().message);
    environment.report(protocol::encode(protocol::Report(protocol::Failed{done.error().message})));
    return exit_status(done.error().code, environment.hooks.stopped());
}

}  // namespace roll::convert
