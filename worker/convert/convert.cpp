#include "worker/convert/convert.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/files.hpp"
#include "worker/checkpoint/state.hpp"
#include "worker/convert/adapter/adapter.hpp"
#include "worker/convert/adapter/merge.hpp"
#include "worker/convert/adapter/write.hpp"
#include "worker/convert/checkpoint/matcher.hpp"
#include "worker/convert/checkpoint/variants.hpp"
#include "worker/convert/plan/diff.hpp"
#include "worker/convert/plan/gather.hpp"
#include "worker/convert/plan/quantize.hpp"
#include "worker/convert/read/all_states.hpp"
#include "worker/convert/read/archives.hpp"
#include "worker/convert/read/job_state.hpp"
#include "worker/convert/write/carry_out.hpp"
#include "worker/convert/write/optimizer_values.hpp"
#include "worker/convert/write/staging.hpp"
#include "worker/convert/write/target.hpp"
#include "worker/formats/nemo.hpp"
#include "worker/formats/tar.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> stopped() {
    return fail(ErrorCode::Unavailable, "the conversion was stopped");
}

// Returns the file name of the target if the target is a NeMo archive. Returns an empty string for
// other targets.
std::string archive_of(const Request& request, Format to) {
    const bool archive = to == Format::Nemo && formats::is_nemo_archive(request.target);
    return archive ? request.target.filename().string() : "";
}

// Returns the peak disk use in bytes. For an archive, the largest file counts twice, because a file
// is copied into the archive before it is removed.
std::int64_t space_of(const Plan& plan, bool archive) {
    if (!archive) return plan.bytes;
    std::vector<std::int64_t> files(plan.files.size(), 0);
    for (const TargetTensor& target : plan.tensors)
        files[target.file] += tensor::byte_count(target.info.dtype, target.info.shape).value_or(0);
    return plan.bytes + *std::max_element(files.begin(), files.end());
}

// Returns the peak memory in bytes: `threads` times the memory for the tensor that needs the most
// memory. A tensor needs memory for the mapped pages that are read, and for one window (the rows
// that are computed at a time). With adapters or scales, it needs memory for three windows.
std::int64_t memory_of(const Source& source, const Plan& plan, int threads) {
    std::int64_t largest = 0;
    for (const TargetTensor& target : plan.tensors) {
        const std::int64_t rows = target.info.shape.empty() ? 1 : target.info.shape[0];
        const std::int64_t total =
            tensor::byte_count(target.info.dtype, target.info.shape).value_or(0);
        std::int64_t bytes =
            std::min(std::max(kWindowBytes, total / std::max<std::int64_t>(rows, 1)), total);
        if (!source.overlay.deltas.empty() || !source.overlay.scales.empty()) bytes *= 3;
        largest = std::max(largest, bytes + total);
    }
    return largest * threads;
}

// Returns train.optimizer of the job that wrote the source; an empty object if it is unknown.
Json rates_of(const Source& source) {
    const auto text = read_regular_file(source.directory / checkpoint::kJobFile);
    const auto job = text ? parse_json(*text) : tl::unexpected(text.error());
    if (!job || !job->is_object()) return Json::object();
    const Json rates = job->value(Json::json_pointer("/train/optimizer"), Json());
    return rates.is_object() ? rates : Json::object();
}

// Adds the optimizer's states to the source if the request asks for them.
Result<std::optional<OptimizerStates>> states_of(Source& source, const Request& request, Format to,
                                                 const families::Families& families) {
    const Output usual;
    const bool asks = request.optimizer_kind != usual.optimizer_kind || request.bucket_size > 0 ||
                      request.grad_dtype != usual.grad_dtype;
    if (asks && !request.optimizer)
        return fail(ErrorCode::InvalidArgument,
                    "--optimizer-kind, --bucket-size and --grad-dtype require --optimizer");
    if (asks && !request.in_buckets())
        return fail(ErrorCode::InvalidArgument,
                    "--bucket-size and --grad-dtype require --optimizer-kind dp_reshardable");
    if (request.in_buckets() && request.layout.ep > 1)
        return fail(
            ErrorCode::InvalidArgument,
            "--optimizer-kind dp_reshardable works only without expert parallelism; ep is " +
                std::to_string(request.layout.ep));
    if (!request.optimizer) return std::nullopt;
    const bool fits = to == Format::TorchDist || to == Format::Mca;
    if (!fits || !request.adapters.empty() || !request.state.empty())
        return fail(
            ErrorCode::InvalidArgument,
            std::string("--optimizer works only with torch_dist and mca targets, without --state "
                        "and without adapters; the target is ") +
                name_of(to));
    return add_states(source, families, request);
}

// Returns the names of the tensors that a target of format mca stores in kKeptFile, a file that
// Megatron does not read. Empty for other formats.
std::vector<std::string> kept_names(const Source& source, Format to) {
    std::vector<std::string> names;
    if (to != Format::Mca) return names;
    for (const int number : source.model.kept)
        names.push_back(source.model.tensors[static_cast<std::size_t>(number)].name);
    return names;
}

std::size_t count_reused(const Plan& plan, const fs::path& directory, const fs::path& reuse) {
    if (reuse.empty()) return 0;
    return static_cast<std::size_t>(
        std::count_if(plan.files.begin(), plan.files.end(), [&](const TargetFile& file) {
            std::error_code error;
            return fs::equivalent(directory / file.path, reuse / file.path, error);
        }));
}

// Opens the written target and compares this process's share of its tensors with the source.
Result<void> check_result(const Source& source, const Plan& plan, const fs::path& directory,
                          const Part& part, const families::Families& families,
                          const Hooks& hooks) {
    const OpenOptions options{{}, source.matching.strictness, {}};
    ROLL_TRY(Source written, open_source(directory, families, options));
    if (!plan.optimizer.is_null()) ROLL_TRY_VOID(add_states(written, families, options));
    ROLL_TRY(Diff found, diff(source, written, true, hooks.stopped, share_of(part)));
    std::erase_if(found.only_first,
                  [&](const std::string& name) { return plan.left_out_hf.contains(name); });
    const bool in_blocks =
        std::any_of(plan.tensors.begin(), plan.tensors.end(),
                    [](const auto& one) { return one.making != Making::Copies; });
    if (in_blocks && part.leads()) ROLL_TRY_VOID(check_blocks(source, plan, written));
    std::erase_if(found.differences, [&](const Difference& one) {
        return written.overlay.scales.contains(written.model.number.at(one.name));
    });
    if (found.same()) return {};
    const std::string name = !found.differences.empty()  ? found.differences.front().name
                             : !found.only_first.empty() ? found.only_first.front()
                                                         : found.only_second.front();
    return fail(ErrorCode::Corrupt,
                "the written " + name + " differs from the source; convert again");
}

// Returns the hooks for one of several processes. With these hooks, all processes stop together,
// and the progress counts the bytes of all processes.
Hooks shared(const Hooks& hooks, Meeting& meeting, const Part& part) {
    if (part.alone()) return hooks;
    Hooks all = hooks;
    all.stopped = [&] { return hooks.stopped() || !meeting.trouble(); };
    all.progress = [&](std::int64_t done, std::int64_t total) {
        meeting.say(done);
        hooks.progress(done + meeting.bytes(), total);
    };
    return all;
}

// Checks this process's share of the source's bytes. Also checks all archives of the adapters,
// because adapters are small.
Result<void> check_sources(const Request& request, const Hooks& hooks) {
    for (const fs::path& adapter : request.adapters)
        for (const AdapterPlace& place : find_adapters(adapter))
            ROLL_TRY_VOID(check_archives(place.directory, hooks.stopped));
    return check_bytes(request.source, hooks.stopped, share_of(request.part),
                       request.optimizer || !request.state.empty());
}

// Fills the staging directory and verifies it. Between the steps, waits for the other processes, if
// there are any.
Result<void> fill_staging(const Source& source, const Plan& plan, const Request& request, Format to,
                          const families::Families& families, Meeting& meeting,
                          const Hooks& given) {
    const Part& part = request.part;
    const fs::path directory = staging_of(request.target);
    const std::string archive = archive_of(request, to);
    const Hooks hooks = shared(given, meeting, part);
    if (request.verify) ROLL_TRY_VOID(check_sources(request, hooks));
    ROLL_TRY_VOID(carry_out(source, plan, directory, request, hooks));
    meeting.say(Phase::Written);
    if (part.leads()) {
        ROLL_TRY_VOID(meeting.wait_for(Phase::Written, given.stopped));
        ROLL_TRY_VOID(write_companions(source, plan, request, to, directory));
        if (!archive.empty()) ROLL_TRY_VOID(formats::pack_tar(directory, archive, given.stopped));
        meeting.say(Phase::Whole);
    } else {
        ROLL_TRY_VOID(meeting.wait_for(Phase::Whole, given.stopped));
    }
    const fs::path written = archive.empty() ? directory : directory / archive;
    if (request.verify) ROLL_TRY_VOID(check_result(source, plan, written, part, families, hooks));
    meeting.say(Phase::Verified);
    if (part.leads()) ROLL_TRY_VOID(meeting.wait_for(Phase::Verified, given.stopped));
    return given.stopped() ? stopped() : Result<void>();
}

// Produces the target completely or not at all. If there are several processes, the first process
// stages and publishes the target. Each process stops if another process fails.
Result<void> produce(const Source& source, const Plan& plan, const Request& request, Format to,
                     const families::Families& families, const Hooks& hooks, Report& report) {
    const std::string archive = archive_of(request, to);
    if (!archive.empty() && !request.part.alone())
        return fail(
            ErrorCode::InvalidArgument,
            "a .nemo archive cannot be written with --part; choose a directory as the target");
    std::optional<Staging> staging;
    if (request.part.leads()) {
        ROLL_TRY_VOID(check_space(request.target, space_of(plan, !archive.empty())));
        ROLL_TRY(Staging begun, Staging::begin(request.target, request.overwrite));
        staging.emplace(std::move(begun));
    }
    ROLL_TRY(Meeting meeting,
             Meeting::join(staging_of(request.target), request.part, hooks.stopped));
    auto done = fill_staging(source, plan, request, to, families, meeting, hooks);
    if (!done && !hooks.stopped() && !meeting.trouble()) done = meeting.trouble();
    if (!done) {
        meeting.leave(done.error().message);
        return done;
    }
    ROLL_TRY_VOID(meeting.end());
    if (!staging) return {};
    report.reused = count_reused(plan, staging->directory(), request.reuse);
    return archive.empty() ? staging->publish() : staging->publish_file(archive);
}

}  // namespace

Result<Report> convert(const Request& request, const families::Families& families,
                       const Hooks& hooks) {
    ROLL_TRY_VOID(check_apart(request.source, request.target));
    ROLL_TRY(const Format from, detect_format(request.source));
    if (!request.reuse.empty() && !fs::is_directory(request.reuse))
        return fail(ErrorCode::NotFound, request.reuse.string() + " does not exist");
    const bool has_config = from == Format::Hf || from == Format::Mca;
    if (has_config && request.adapter_source.empty() && !request.config.empty())
        return fail(ErrorCode::InvalidArgument,
                    request.source.string() + " is of format " + name_of(from) +
                        " and has a config; --config is only for checkpoints without a config, so "
                        "leave it out");
    if (from == Format::Peft || !request.adapter_source.empty()) {
        if (!request.part.alone())
            return fail(ErrorCode::InvalidArgument,
                        "adapters cannot be converted with --part; leave out --part");
        Input input = request;
        if (!input.state.empty()) {
            ROLL_TRY(input.source, averaged_adapter(input.source, std::exchange(input.state, {})));
        }
        return convert_adapters(input, request, request, families, hooks);
    }
    ROLL_TRY(Source source, open_source(request.source, families, request));
    const Folding folding = request.unmerge ? Folding::Out : Folding::In;
    for (const fs::path& adapter : request.adapters)
        ROLL_TRY_VOID(attach_adapter(source, adapter, folding));
    const Format to = request.to.value_or(source.format == Format::Hf ? Format::Mca : Format::Hf);
    ROLL_TRY(const auto states, states_of(source, request, to, families));
    ROLL_TRY(std::vector<Stored> layout, target_layout(source, request, to));
    std::optional<BucketSizes> buckets;
    if (states) {
        ROLL_TRY(const auto of_model,
                 optimizer_layout(source, request, to, states->model_tensors, buckets));
        add_state_layout(layout, of_model, *states);
    }
    ROLL_TRY(Plan plan, make_plan(source, std::move(layout), request.cast()));
    plan.buckets = std::move(buckets);
    if (states) {
        plan.optimizer =
            optimizer_values(rates_of(source), states->updates, request.optimizer_kind);
        plan.parameters /= static_cast<std::int64_t>(states->names.size()) + 1;
    }
    complete_plan(source, request, to, plan);
    Report report{source.format,
                  to,
                  source.config.model_type,
                  request.target,
                  plan.tensors.size(),
                  plan.files.size(),
                  0,
                  plan.bytes,
                  plan.parameters,
                  plan.dtype,
                  source.matching.dropped,
                  disagreement_of(source, plan),
                  request.dry_run ? to_text(source, plan) : ""};
    report.kept = kept_names(source, to);
    report.memory = memory_of(source, plan, threads_of(request));
    report.disk_free = disk_free(request.target);
    if (request.dry_run) {
        const bool archive = !archive_of(request, to).empty();
        const auto fits = check_space(request.target, space_of(plan, archive));
        if (!fits) report.refusal = fits.error();
        return report;
    }
    ROLL_TRY_VOID(produce(source, plan, request, to, families, hooks, report));
    return report;
}

std::string sentence_on_kept(const Report& report) {
    if (report.kept.empty()) return {};
    return fmt::format(
        "tensors kept in {}: {}; Megatron cannot store them and will not train them\n", kKeptFile,
        listed(report.kept));
}

Json to_json(const Error& error) {
    return {{"code", name_of(error.code)}, {"message", error.message}, {"hint", error.hint}};
}

Json to_json(const Report& report) {
    Json json{{"schema", "roll.convert/1"},
              {"from", name_of(report.from)},
              {"to", name_of(report.to)},
              {"model_type", report.model_type},
              {"target", report.target.string()},
              {"tensors", report.tensors},
              {"files", report.files},
              {"reused", report.reused},
              {"bytes", report.bytes},
              {"parameters", report.parameters},
              {"dtype", tensor::torch_name_of(report.dtype)},
              {"memory_bytes", report.memory},
              {"disk_free_bytes", report.disk_free}};
    json["dropped"] = Json::array();
    for (const Dropped& dropped : report.dropped)
        json["dropped"].push_back(
            {{"file", dropped.file}, {"tensor", dropped.name}, {"rule", dropped.rule}});
    json["kept"] = report.kept;
    json["unexpected"] = report.disagreement.unexpected;
    json["missing"] = report.disagreement.missing;
    json["left_out"] = report.disagreement.left_out;
    if (report.refusal) json["error"] = to_json(*report.refusal);
    if (!report.plan.empty()) json["plan"] = report.plan;
    return json;
}

}  // namespace roll::convert
