#include "cli/submit/layout_choice.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/client/daemon.hpp"
#include "common/counted.hpp"
#include "common/files.hpp"
#include "common/io/run.hpp"
#include "common/protocol/cluster_operations.hpp"
#include "common/spec/check/check_job.hpp"
#include "common/spec/check/tensor.hpp"
#include "common/spec/job/resources.hpp"
#include "common/spec/schema/units.hpp"
#include "common/spec/train/train.hpp"
#include "worker/plan/size_text.hpp"

namespace roll::cli {
namespace {

constexpr std::array kSearched{"tp", "pp", "vpp", "sequence", "zero", "recompute"};

// The memory that a rank may use, and where this number comes from.
struct Limit {
    std::int64_t bytes = 0;
    std::string from;
};

bool is_auto(const Json& document, const char* pointer) {
    const Json::json_pointer at(pointer);
    return document.contains(at) && document[at] == "auto";
}

bool asks_for_layout(const Json& document) {
    return is_auto(document, "/parallel/layout") || is_auto(document, "/train/micro_batch_size");
}

// Returns the least memory of all nodes with at least `slots` slots; nullopt if rolld knows no such
// node.
std::optional<std::int64_t> smallest_node(const Context& context, int slots) {
    auto daemon = Daemon::connect(context);
    if (!daemon) return std::nullopt;
    const auto reply = daemon->ask(protocol::NodesArgs{});
    if (!reply) return std::nullopt;
    std::optional<std::int64_t> least;
    for (const Json& node : reply->value("nodes", Json::array())) {
        const Json memory = node.value("memory", Json());
        if (!memory.is_number() || node.value("slots", 0) < slots) continue;
        const auto bytes = memory.get<std::int64_t>();
        if (bytes > 0) least = std::min(least.value_or(bytes), bytes);
    }
    return least;
}

Result<Limit> memory_limit(const Context& context, const Json& document,
                           const spec::Resources& resources) {
    const Json parallel = document.value("parallel", Json::object());
    const auto given = parallel.value("memory_limit", std::string("0"));
    if (given != "0") {
        ROLL_TRY(const std::uint64_t bytes, spec::parse_size(given));
        return Limit{static_cast<std::int64_t>(bytes), "parallel.memory_limit"};
    }
    if (resources.gpus_per_node > 0)
        return fail(ErrorCode::InvalidArgument,
                    "parallel.memory_limit is missing; with GPUs and an automatic layout, set it "
                    "to the memory of a GPU that a rank may use, such as 70GiB");
    const int ranks = resources.ranks_per_node();
    const auto share = [&](std::int64_t bytes, const std::string& of) {
        return Limit{bytes / ranks, fmt::format("{} / {}", of, counted(ranks, "rank"))};
    };
    if (resources.memory > 0) return share(resources.memory, "resources.memory");
    if (const auto node = smallest_node(context, resources.slots_per_node))
        return share(*node, "the memory of the smallest node");
    const auto pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
    return share(std::int64_t{pages} * size, "the memory of this machine");
}

// The input of roll-rank's search: a document, and the keys that roll-rank must choose.
struct Question {
    Json document;
    std::vector<std::string> keys;
    std::int64_t dp = 0;  // data-parallel size that the job requires; 0: any size
};

// Returns the question for roll-rank. `asked` is the document that has the value `auto`. `complete`
// is the job's document with all defaults. is_fixed(key) returns whether the search must keep the
// value of parallel.KEY.
template <class IsFixed>
Question question_of(const Json& asked, Json complete, const IsFixed& is_fixed) {
    Question question;
    Json& parallel = complete["parallel"];
    if (is_auto(asked, "/parallel/layout")) {
        for (const char* key : kSearched) {
            if (is_fixed(key)) continue;
            question.keys.emplace_back(key);
            parallel.erase(key);
        }
        // A job that sets `group` or `schedule_file` also sets the schedule by it.
        if (!is_fixed("schedule") && !is_fixed("group") && !is_fixed("schedule_file")) {
            question.keys.emplace_back("schedule");
            parallel.erase("schedule");
            parallel.erase("group");
        }
        if (is_fixed("dp")) question.dp = parallel.value("dp", std::int64_t{0});
        parallel.erase("dp");
        parallel.erase("layout");
    }
    if (is_auto(asked, "/train/micro_batch_size")) {
        question.keys.emplace_back("micro_batch_size");
        complete["train"]["micro_batch_size"] = 1;
    }
    question.document = std::move(complete);
    return question;
}

// Runs roll-rank's command `verb` on a job's document, and returns the JSON that it prints.
Result<Json> ask_rank(const std::string& verb, const std::string& document,
                      const std::vector<std::string>& options) {
    const auto beside = std::filesystem::path(io::own_program()).parent_path() / "roll-rank";
    io::Spawn spawn;
    spawn.arguments = {path_exists(beside) ? beside.string() : "roll-rank", verb, "--spec",
                       "/proc/self/fd/0"};
    spawn.arguments.insert(spawn.arguments.end(), options.begin(), options.end());
    spawn.environment = io::current_environment();
    ROLL_TRY(const io::Finished done, io::run(std::move(spawn), {.input = document}));
    Json report = Json::parse(done.output, nullptr, false);
    if (done.exit_code == 0 && report.is_object()) return report;
    const Json error = report.is_object() ? report.value("error", Json::object()) : Json::object();
    return fail(ErrorCode::InvalidArgument,
                error.value("message", fmt::format("`roll-rank {}` failed", verb)));
}

Result<Json> search(const Question& question, const Limit& limit) {
    std::vector<std::string> options = {"--memory-limit", std::to_string(limit.bytes),
                                        "--memory-from",  limit.from,
                                        "--dp",           std::to_string(question.dp)};
    for (const std::string& key : question.keys) {
        options.emplace_back("--search");
        options.push_back(key);
    }
    return ask_rank("layout", question.document.dump(), options);
}

// Chooses the layout of one document. Returns null if check_job() refuses the document, and for a
// job of another kind than train or resume.
Result<Json> choose(const Context& context, const Source& source, Json& document) {
    const spec::ParsedJob job = spec::check_job(document, source.base);
    if (!job.ok()) return Json();
    if (job.spec.kind != spec::JobKind::Train && job.spec.kind != spec::JobKind::Resume)
        return Json();
    const Json given = document.value("parallel", Json::object());
    const bool resumes = job.spec.kind == spec::JobKind::Resume;
    const auto is_fixed = [&](const char* key) {
        return given.contains(key) &&
               (!resumes || source.lines.contains(std::string("parallel.") + key));
    };
    const Question question =
        question_of(document, Json::parse(job.spec.document.text()), is_fixed);
    ROLL_TRY(const Limit limit, memory_limit(context, question.document, job.spec.resources));
    ROLL_TRY(Json report, search(question, limit));
    Json& parallel = document["parallel"];
    if (!parallel.is_object()) parallel = Json::object();
    if (parallel.erase("layout") > 0 && question.dp == 0) parallel.erase("dp");
    if (std::ranges::find(question.keys, "schedule") != question.keys.end())
        parallel.erase("group");
    parallel.update(report["chosen"]["parallel"]);
    document["train"].update(report["chosen"]["train"]);
    return report;
}

}  // namespace

Result<std::vector<Json>> choose_layouts(const Context& context, std::vector<Source>& sources) {
    std::vector<Json> reports;
    const auto visit = [&](const Source& source, Json& document,
                           const std::string& where) -> Result<void> {
        if (!document.is_object() || !asks_for_layout(document)) return {};
        const auto refuse = [&](const Error& error) {
            return fail(error.code, fmt::format("{}{} cannot be queued: {}", source.label, where,
                                                error.message));
        };
        if (document.contains("sweep"))
            return refuse({ErrorCode::InvalidArgument,
                           "an automatic layout cannot be chosen for a sweep; run `rollctl plan` "
                           "on a job without the sweep, and write the layout that it chooses into "
                           "the file of the sweep"});
        auto report = choose(context, source, document);
        if (!report) return refuse(report.error());
        if (!report->is_null()) reports.push_back(*std::move(report));
        return {};
    };
    for (Source& source : sources) {
        ROLL_TRY_VOID(visit(source, source.document, ""));
        if (!source.document.is_object() || !source.document.contains("then")) continue;
        Json& then = source.document["then"];
        for (std::size_t i = 0; then.is_array() && i < then.size(); ++i)
            ROLL_TRY_VOID(visit(source, then[i], fmt::format(" then[{}]", i)));
    }
    return reports;
}

// Returns true if `message`, an error of `roll-rank plan`, says that the job exceeds a limit.
static bool names_a_limit(const std::string& message) {
    return message.find("parallel.memory_limit is ") != std::string::npos ||
           message.find("parallel.activation_limit is ") != std::string::npos;
}

Result<void> check_memory_limits(const std::vector<spec::JobSpec>& jobs) {
    for (const spec::JobSpec& job : jobs) {
        const auto train =
            job.trains() ? spec::train_spec(job.document.text()) : tl::unexpected(Error{});
        if (train && (train->parallel.memory_limit > 0 || train->parallel.activation_limit > 0)) {
            const auto plan = ask_rank("plan", job.document.text(), {"--json"});
            if (!plan && names_a_limit(plan.error().message))
                return fail(plan.error().code,
                            fmt::format("{} cannot be queued: {}", job.name, plan.error().message));
        }
        ROLL_TRY_VOID(check_memory_limits(job.then));
    }
    return {};
}

std::vector<std::string> span_warnings(const std::vector<spec::JobSpec>& jobs) {
    std::vector<std::string> warnings;
    for (const spec::JobSpec& job : jobs) {
        if (job.kind != spec::JobKind::Train && job.kind != spec::JobKind::Resume) continue;
        const std::string document = job.document.text();
        const auto train = spec::train_spec(document);
        if (!train || spec::tensor_span_warning(train->parallel, job.resources.nodes, "").empty())
            continue;
        const auto planned = ask_rank("plan", document, {"--json"});
        const std::string sent =
            planned ? plan::bytes_text(
                          (*planned)["communication_bytes_per_step"]["tensor"].get<std::int64_t>())
                    : "";
        warnings.push_back(
            fmt::format("warning: {}: {}", job.name,
                        spec::tensor_span_warning(train->parallel, job.resources.nodes, sent)));
    }
    return warnings;
}

}  // namespace roll::cli
