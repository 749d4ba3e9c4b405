#include "worker/convert/command/commands.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <unistd.h>

#include "common/check.hpp"
#include "common/counted.hpp"
#include "common/files.hpp"
#include "common/program_end.hpp"
#include "worker/convert/adapter/config.hpp"
#include "worker/convert/adapter/diff.hpp"
#include "worker/convert/adapter/report.hpp"
#include "worker/convert/convert.hpp"
#include "worker/convert/plan/diff.hpp"
#include "worker/convert/plan/rows.hpp"
#include "worker/convert/plan/statistics.hpp"
#include "worker/convert/read/archives.hpp"
#include "worker/families/active.hpp"
#include "worker/families/check.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

void print(const Json& json) { fmt::print("{}\n", json.dump(2)); }

Json layout_json(const formats::McaLayout& layout) {
    return {{"tp", layout.tp}, {"pp", layout.pp},           {"vpp", layout.vpp},
            {"ep", layout.ep}, {"etp", layout.expert_tp()}, {"layout", layout.pipeline}};
}

// Returns true if an environment variable of ROLL allows replicas to differ.
bool replicas_may_differ() {
    const char* const variable = std::getenv("ASSERT_SP_CONSISTENCY");  // NOLINT: no threads yet
    return variable != nullptr && std::string_view(variable) == "0";
}

// Shows a conversion's progress on a terminal.
class Pace {
  public:
    // Shows progress if `shows` is true and stderr is a terminal.
    explicit Pace(bool shows) : shows_(shows && ::isatty(STDERR_FILENO) != 0) {}
    ~Pace() { wipe(); }
    Pace(const Pace&) = delete;
    Pace& operator=(const Pace&) = delete;

    // Shows `done` of `total` bytes, at most five times a second.
    void show(std::int64_t done, std::int64_t total) {
        constexpr std::chrono::milliseconds kBetween(200);
        const Clock::time_point now = Clock::now();
        if (!shows_ || now - shown_ < kBetween) return;
        shown_ = now;
        wipes_ = true;
        fmt::print(stderr, "\r{:.2f} of {:.2f} GB, {:.2f} GB/s\033[K",
                   static_cast<double>(done) / 1e9, static_cast<double>(total) / 1e9,
                   gigabytes_per_second(done));
    }

    // Clears the progress line. Call wipe() before other output.
    void wipe() {
        if (wipes_) fmt::print(stderr, "\r\033[K");
        wipes_ = false;
    }

    // Returns the seconds since construction.
    double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

    double gigabytes_per_second(std::int64_t bytes) const {
        return static_cast<double>(bytes) / 1e9 / std::max(seconds(), 1e-9);
    }

  private:
    using Clock = std::chrono::steady_clock;
    Clock::time_point began_ = Clock::now();
    Clock::time_point shown_ = {};
    bool shows_ = false;
    bool wipes_ = false;
};

std::string said_of(const Pace& pace, std::int64_t bytes) {
    return fmt::format(", {:.2f} s, {:.2f} GB/s", pace.seconds(), pace.gigabytes_per_second(bytes));
}

// Prints the differences between a checkpoint and its model. With `as_warnings`, prints warnings to
// stderr; otherwise prints lines to stdout.
void tell(const Disagreement& disagreement, bool as_warnings, bool json) {
    if (json && !as_warnings) return;
    for (const std::string& line : sentences(disagreement))
        fmt::print(as_warnings ? stderr : stdout, "{}{}\n", as_warnings ? "warning: " : "", line);
}

Result<int> run(const ConvertCommand& command, const families::Families& families,
                const Environment& environment) {
    for (const std::string& name : command.ignored)
        fmt::print(stderr, "ignored: --{} has no effect on a conversion\n", name);
    Pace pace(!command.json);
    Hooks hooks = environment.hooks;
    hooks.progress = [&](std::int64_t done, std::int64_t total) { pace.show(done, total); };
    if (replicas_may_differ())
        hooks.differs = [](const std::string& what) {
            fmt::print(stderr,
                       "warning: {}; the conversion uses the tensor that this line names last\n",
                       what);
        };
    ROLL_TRY(const Report report, convert(command.request, families, hooks));
    pace.wipe();
    tell(report.disagreement, is_logged(command.request.strictness), command.json);
    if (command.json) {
        Json json = to_json(report);
        json["seconds"] = pace.seconds();
        print(json);
        return report.refusal ? exit_code(report.refusal->code) : 0;
    }
    fmt::print("{}", report.plan);
    const bool dry = command.request.dry_run;
    if (dry)
        fmt::print(stderr,
                   "the conversion needs at most {} bytes of memory; {} bytes of disk are free\n",
                   report.memory, report.disk_free);
    fmt::print(stderr, "{}", sentence_on_kept(report));
    if (report.reused > 0)
        fmt::print(stderr, "hard-linked files: {}; all files: {}; earlier target: {}\n",
                   report.reused, report.files, command.request.reuse.string());
    fmt::print(stderr, "{} {} -> {}: {} parameters, {}, {} bytes; files: {}{}{}{}\n",
               report.model_type, name_of(report.from), name_of(report.to), report.parameters,
               counted(report.tensors, "tensor"), report.bytes, report.files,
               dry ? ", which would be written to " : " at ", report.target.string(),
               dry ? "" : said_of(pace, report.bytes));
    return report.refusal ? report_error(*report.refusal, false) : 0;
}

Json targets_json(const LoraTargets& targets) {
    return {{"all-linear", targets.linear},
            {"all-embedding", targets.embedding},
            {"all-router", targets.router}};
}

Json inspect_json(const Source& source, const Plan& plan) {
    Json json{{"schema", "roll.inspect/1"},
              {"directory", source.directory.string()},
              {"format", name_of(source.format)},
              {"model_type", source.config.model_type},
              {"parameters", plan.parameters},
              {"bytes", plan.bytes},
              {"dtype", tensor::torch_name_of(plan.dtype)},
              {"layout", layout_json(source.config.layout)}};
    if (const auto active = families::active_parameters(source.config.native, source.native)) {
        json["active_parameters"] = active->per_token;
        json["weight_flops_per_token"] = active->flops;
    }
    const Disagreement disagreement = disagreement_of(source, plan);
    json["unexpected"] = disagreement.unexpected;
    json["missing"] = disagreement.missing;
    json["lora_targets"] = {{"native", targets_json(lora_targets(source.native, false))},
                            {"hf", targets_json(lora_targets(source.native, true))}};
    json["tensors"] = Json::array();
    for (const SourceTensor& one : source.tensors)
        json["tensors"].push_back({{"name", one.stored.name},
                                   {"file", one.stored.file},
                                   {"section", one.stored.section},
                                   {"dtype", name_of(one.view.info.dtype)},
                                   {"shape", one.view.info.shape}});
    return json;
}

// For a model with experts, returns a line with the number of parameters that one token uses.
// Returns an empty string for other models.
std::string active_text(const Source& source) {
    const auto active = families::active_parameters(source.config.native, source.native);
    if (!active || active->per_token == active->parameters) return {};
    return fmt::format(
        "a token uses {} of {} parameters (top {} of {} experts); training takes {:.4g} FLOP per "
        "token, not counting the attention scores\n",
        active->per_token, active->parameters, source.config.native["moe_router_topk"].dump(),
        source.config.native["num_moe_experts"].dump(), active->flops);
}

bool holds_adapters(const std::string& directory) {
    const auto format = detect_format(directory);
    return format && *format == Format::Peft;
}

Result<int> run(const InspectCommand& command, const families::Families& families,
                const Environment& /*environment*/) {
    if (holds_adapters(command.directory)) {
        ROLL_TRY(const auto adapters,
                 open_adapters(command.directory, command.open.config, families));
        if (command.json)
            print(to_json(command.directory, adapters));
        else
            fmt::print("{}", to_text(adapters));
        return 0;
    }
    ROLL_TRY(const Source source, open_source(command.directory, families, command.open));
    if (!command.tensor.empty()) {
        ROLL_TRY(const Statistics found, statistics_of(source, command.tensor));
        command.json ? print(to_json(found)) : fmt::print("{}", to_text(found));
        return 0;
    }
    ROLL_TRY(const Plan plan, make_plan(source, hf_layout(source.model), std::nullopt));
    const Disagreement disagreement = disagreement_of(source, plan);
    tell(disagreement, is_logged(source.matching.strictness), command.json);
    if (command.json) {
        print(inspect_json(source, plan));
        return 0;
    }
    const formats::McaLayout& layout = source.config.layout;
    fmt::print("{}: {}, {}, {} parameters, {} ({} bytes), tp {} pp {} vpp {} ep {}\n",
               source.directory.string(), name_of(source.format), source.config.model_type,
               plan.parameters, tensor::torch_name_of(plan.dtype), plan.bytes, layout.tp, layout.pp,
               layout.vpp, layout.ep);
    fmt::print("{}", active_text(source));
    for (const SourceTensor& one : source.tensors)
        fmt::print("{} {} {} {}{}{}\n", one.stored.name, name_of(one.view.info.dtype),
                   tensor::to_string(one.view.info.shape), one.stored.file,
                   one.stored.section.empty() ? "" : " ", one.stored.section);
    return 0;
}

Result<int> run(const VerifyCommand& command, const families::Families& families,
                const Environment& environment) {
    if (holds_adapters(command.directory)) {
        ROLL_TRY(const auto adapters,
                 open_adapters(command.directory, command.open.config, families));
        for (const OpenedAdapter& one : adapters)
            ROLL_TRY_VOID(check_archives(one.place.directory, environment.hooks.stopped));
        if (command.json)
            print({{"schema", "roll.verify/1"},
                   {"directory", command.directory},
                   {"ok", true},
                   {"adapters", adapters.size()}});
        else
            fmt::print("{}: no damage found; adapters: {}\n", command.directory, adapters.size());
        return 0;
    }
    ROLL_TRY(const Source source, open_source(command.directory, families, command.open));
    ROLL_TRY(const Plan plan, make_plan(source, hf_layout(source.model), std::nullopt));
    for (const Comparison& comparison : plan.comparisons) {
        if (environment.hooks.stopped()) return fail(ErrorCode::Unavailable, "stopped");
        ROLL_TRY_VOID(compare(source, comparison));
    }
    ROLL_TRY_VOID(check_archives(command.directory, environment.hooks.stopped));
    ROLL_TRY_VOID(environment.check_manifest(command.directory));
    if (command.json) {
        print({{"schema", "roll.verify/1"},
               {"directory", command.directory},
               {"ok", true},
               {"tensors", source.tensors.size()},
               {"replicas", plan.comparisons.size()}});
    } else {
        fmt::print("{}: no damage found; tensors: {}, equal replicas: {}\n", command.directory,
                   source.tensors.size(), plan.comparisons.size());
    }
    return 0;
}

Json diff_json(const DiffCommand& command, const Diff& found) {
    Json json{{"schema", "roll.diff/1"},         {"first", command.first},
              {"second", command.second},        {"same", found.same()},
              {"tensors", found.tensors},        {"only_first", found.only_first},
              {"only_second", found.only_second}};
    json["differences"] = Json::array();
    for (const Difference& one : found.differences)
        json["differences"].push_back({{"name", one.name},
                                       {"elements", one.elements},
                                       {"max_abs", one.max_abs},
                                       {"max_rel", one.max_rel},
                                       {"max_ulp", one.max_ulp}});
    return json;
}

Result<Diff> diff_of(const DiffCommand& command, const families::Families& families,
                     const Environment& environment) {
    const auto& stopped = environment.hooks.stopped;
    if (holds_adapters(command.first) && holds_adapters(command.second)) {
        ROLL_TRY(const auto first, open_adapters(command.first, command.open.config, families));
        ROLL_TRY(const auto second, open_adapters(command.second, command.open.config, families));
        return diff_adapters(first, second, command.cast, stopped);
    }
    ROLL_TRY(const Source first, open_source(command.first, families, command.open));
    OpenOptions of_second = command.open;
    of_second.state.clear();
    ROLL_TRY(const Source second, open_source(command.second, families, of_second));
    for (const Source* one : {&first, &second}) ROLL_TRY_VOID(check_copies(*one));
    return diff(first, second, command.cast, stopped);
}

Result<int> run(const DiffCommand& command, const families::Families& families,
                const Environment& environment) {
    ROLL_TRY(const Diff found, diff_of(command, families, environment));
    if (command.json) {
        print(diff_json(command, found));
    } else {
        for (const std::string& name : found.only_first)
            fmt::print("only in the first: {}\n", name);
        for (const std::string& name : found.only_second)
            fmt::print("only in the second: {}\n", name);
        for (const Difference& one : found.differences) {
            if (!one.unlike.empty()) {
                fmt::print("{}: {}\n", one.name, one.unlike);
                continue;
            }
            fmt::print("{}: {} {}, max abs {:.3g}, rel {:.3g}, {} ulp\n", one.name,
                       counted(one.elements, "element"), one.elements == 1 ? "differs" : "differ",
                       one.max_abs, one.max_rel, one.max_ulp);
        }
        if (std::ranges::any_of(found.differences, &Difference::castable))
            fmt::print("use --cast to compare the values of tensors of different types\n");
        fmt::print("{} compared: {}\n", counted(found.tensors, "tensor"),
                   found.same() ? "equal" : "different");
    }
    return found.same() ? 0 : 1;
}

Result<int> run(const EditCommand& command, const families::Families& /*families*/,
                const Environment& environment) {
    ROLL_TRY(const EditReport report, edit(command.request, environment.hooks));
    if (command.json) {
        Json json{{"schema", "roll.edit/1"},
                  {"target", command.request.target.string()},
                  {"tensors", report.tensors},
                  {"removed", report.removed},
                  {"renamed", Json::object()}};
        for (const auto& [old_name, name] : report.renamed) json["renamed"][old_name] = name;
        print(json);
        return 0;
    }
    for (const std::string& name : report.removed) fmt::print("removed {}\n", name);
    for (const auto& [old_name, name] : report.renamed) fmt::print("{} -> {}\n", old_name, name);
    fmt::print(stderr, "{} at {}\n", counted(report.tensors, "tensor"),
               command.request.target.string());
    return 0;
}

Result<int> run(const FamiliesCommand& command, const families::Families& families,
                const Environment& /*environment*/) {
    if (!command.file.empty()) {
        ROLL_TRY(const std::string text, read_file(command.file));
        ROLL_TRY(const families::Family family, families::parse_family(text, command.file));
        if (const auto checked = families::check_family(family); !checked)
            return fail(checked.error().code, command.file + ": " + checked.error().message,
                        checked.error().hint);
        fmt::print("{}: {} with {} weight rules\n", command.file, family.name,
                   family.weights.size());
        return 0;
    }
    Json json{{"schema", "roll.families/1"}, {"families", Json::array()}};
    for (const auto& [name, family] : families.all()) {
        if (!command.json) fmt::print("{}\n", name);
        json["families"].push_back(name);
    }
    if (command.json) print(json);
    return 0;
}

template <class Command>
int run_and_report(const Command& command, const Environment& environment) {
    const auto families = families::Families::load();
    auto done = families ? run(command, *families, environment)
                         : Result<int>(tl::unexpected(families.error()));
    if (const auto read = check_mapped_reads(); !read) done = tl::unexpected(read.error());
    return done ? *done : report_error(done.error(), command.json);
}

struct Runner {
    const Environment& environment;
    template <class Command>
    int operator()(const Command& command) const {
        return run_and_report(command, environment);
    }
    int operator()(const HelpCommand& command) const {
        fmt::print("{}", command.text);
        return 0;
    }
    int operator()(const VersionCommand&) const {
        fmt::print("roll-convert {}\n", ROLL_VERSION);
        return 0;
    }
    // never called, because main() runs this command
    int operator()(const LaunchCommand&) const { ROLL_CHECK(false); }
};

}  // namespace

int report_error(const Error& error, bool json) {
    if (!json) return end_with("roll-convert", error);
    print({{"error", to_json(error)}});
    return exit_code(error.code);
}

int run_command(const CommandLine& command, const Environment& environment) {
    return std::visit(Runner{environment}, command);
}

}  // namespace roll::convert
