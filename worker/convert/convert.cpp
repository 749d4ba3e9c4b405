#include "worker/convert/convert.hpp"

#include <sys/statvfs.h>

#include "worker/convert/diff.hpp"
#include "worker/convert/gather.hpp"
#include "worker/convert/staging.hpp"
#include "worker/convert/target.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> stopped() {
    return fail(ErrorCode::Unavailable, "the conversion was stopped");
}

// A target inside its source, or the other way, would replace what is being read.
Result<void> check_places(const Request& request) {
    const fs::path source = fs::weakly_canonical(request.source);
    const fs::path target = fs::weakly_canonical(request.target);
    const auto inside = [](const fs::path& inner, const fs::path& outer) {
        const fs::path relative = inner.lexically_relative(outer);
        return !relative.empty() && *relative.begin() != "..";
    };
    if (source == target || inside(source, target))
        return fail(ErrorCode::InvalidArgument,
                    "the target " + target.string() + " holds the source " + source.string());
    return {};
}

Result<void> check_space(const fs::path& directory, std::int64_t bytes) {
    struct statvfs info {};
    if (::statvfs(directory.c_str(), &info) != 0) return {};
    const auto free = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
    if (free >= static_cast<double>(bytes) * 1.01) return {};
    return fail(ErrorCode::Refused, fmt::format("{} needs {} bytes; its disk has {:.0f} free",
                                                directory.string(), bytes, free));
}

Result<void> write_tensors(const Source& source, const Plan& plan, const fs::path& directory,
                           const Hooks& hooks) {
    std::int64_t done = 0;
    std::size_t next = 0;
    for (std::size_t file = 0; file < plan.files.size(); ++file) {
        ROLL_TRY(const auto writer, create_target(directory, plan.files[file]));
        for (; next < plan.tensors.size() && plan.tensors[next].file == file; ++next) {
            const TargetTensor& target = plan.tensors[next];
            const auto write = [&](std::span<const std::byte> bytes) -> Result<void> {
                if (hooks.stopped()) return stopped();
                ROLL_TRY_VOID(writer->append(target.ordinal, bytes));
                done += static_cast<std::int64_t>(bytes.size());
                hooks.progress(done, plan.bytes);
                return {};
            };
            ROLL_TRY_VOID(gather(source, target, write));
        }
        ROLL_TRY_VOID(writer->finish());
    }
    return {};
}

Result<void> check_replicas(const Source& source, const Plan& plan, const Hooks& hooks) {
    for (const Comparison& comparison : plan.comparisons) {
        if (hooks.stopped()) return stopped();
        ROLL_TRY_VOID(compare(source, comparison));
    }
    return {};
}

// Reads the staged directory as anybody would, and compares.
Result<void> check_result(const Source& source, const fs::path& directory,
                          const families::Families& families, const Hooks& hooks) {
    ROLL_TRY(const Source written, open_source(directory, families));
    ROLL_TRY(const Diff found, diff(source, written, true, hooks.stopped));
    if (found.same()) return {};
    const std::string name = !found.differences.empty()  ? found.differences.front().name
                             : !found.only_first.empty() ? found.only_first.front()
                                                         : found.only_second.front();
    return fail(ErrorCode::Corrupt, "the written " + name + " is not what the source has");
}

}  // namespace

Result<Report> convert(const Request& request, const families::Families& families,
                       const Hooks& hooks) {
    ROLL_TRY_VOID(check_places(request));
    ROLL_TRY(Source source, open_source(request.source, families));
    for (const fs::path& adapter : request.adapters) ROLL_TRY_VOID(attach_adapter(source, adapter));
    const Format to = request.to.value_or(source.format == Format::Hf ? Format::Mca : Format::Hf);
    ROLL_TRY(const std::vector<Stored> layout, target_layout(source, request, to));
    ROLL_TRY(const Plan plan, make_plan(source, layout, request.dtype));
    Report report{source.format,
                  to,
                  source.config.model_type,
                  request.target,
                  plan.tensors.size(),
                  plan.files.size(),
                  plan.bytes,
                  plan.parameters,
                  plan.dtype,
                  source.dropped,
                  request.dry_run ? to_text(source, plan) : ""};
    if (request.dry_run) return report;

    ROLL_TRY(Staging staging, Staging::begin(request.target, request.overwrite));
    ROLL_TRY_VOID(check_space(staging.directory(), plan.bytes));
    ROLL_TRY_VOID(check_replicas(source, plan, hooks));
    ROLL_TRY_VOID(write_tensors(source, plan, staging.directory(), hooks));
    ROLL_TRY_VOID(write_companions(source, plan, request, to, staging.directory()));
    if (request.verify) ROLL_TRY_VOID(check_result(source, staging.directory(), families, hooks));
    if (hooks.stopped()) return stopped();
    ROLL_TRY_VOID(staging.publish());
    return report;
}

Json to_json(const Report& report) {
    Json json{{"schema", "roll.convert/1"},
              {"from", name_of(report.from)},
              {"to", name_of(report.to)},
              {"model_type", report.model_type},
              {"target", report.target.string()},
              {"tensors", report.tensors},
              {"files", report.files},
              {"bytes", report.bytes},
              {"parameters", report.parameters},
              {"dtype", tensor::torch_name_of(report.dtype)}};
    json["dropped"] = Json::array();
    for (const Dropped& dropped : report.dropped)
        json["dropped"].push_back(
            {{"file", dropped.file}, {"tensor", dropped.name}, {"rule", dropped.rule}});
    if (!report.plan.empty()) json["plan"] = report.plan;
    return json;
}

}  // namespace roll::convert
