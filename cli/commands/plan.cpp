#include <algorithm>

#include <CLI/App.hpp>
#include <fmt/format.h>

#include "cli/commands/data.hpp"
#include "cli/job/staged_files.hpp"
#include "cli/show/layout_view.hpp"
#include "cli/submit/layout_choice.hpp"

namespace roll::cli {

Result<std::string> one_document(const std::string& file, const std::string& command,
                                 const std::vector<spec::JobKind>& kinds, const JobOptions& options,
                                 const Prepare& prepare) {
    ROLL_TRY(std::vector<Source> sources, read_job_file(file));
    for (Source& source : sources) {
        ROLL_TRY_VOID(apply_options(options, source));
        PieceBytes unsent;
        ROLL_TRY_VOID(read_files(source.document, source.base, unsent));
        for (const std::string& note : notes_of(source)) say(note);
    }
    if (prepare) ROLL_TRY_VOID(prepare(sources));
    ROLL_TRY(const std::vector<spec::JobSpec> specs, parse_sources(sources, /*queues=*/false));
    if (specs.size() != 1) {
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("{} contains {} jobs; `{}` accepts only one", file, specs.size(), command));
    }
    if (std::ranges::find(kinds, specs[0].kind) == kinds.end()) {
        std::string names;
        for (const spec::JobKind kind : kinds) {
            const char* const between = kind == kinds.back() ? " and " : ", ";
            names += fmt::format("{}`{}`", names.empty() ? "" : between, spec::name_of(kind));
        }
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{} is a job of kind {}; `{}` accepts only the kinds {}", file,
                                spec::name_of(specs[0].kind), command, names));
    }
    return specs[0].document.text();
}

void add_plan_options(CLI::App& command, PlanFiles& files) {
    command.add_option("--svg", files.svg, "Draw the schedule as an SVG image in this file");
    command.add_option("--trace", files.trace,
                       "Write the schedule to this file as a Chrome trace (JSON)");
}

// Returns the command line with which roll-rank runs its command `verb` on the job in `file`. If
// the job has an automatic layout, chooses the layout and adds the search's report to `layouts`.
static Result<std::vector<std::string>> words_for(const char* verb, const Context& context,
                                                  const std::string& file,
                                                  const JobOptions& options,
                                                  std::vector<Json>& layouts) {
    const auto choose = [&](std::vector<Source>& sources) -> Result<void> {
        ROLL_TRY(layouts, choose_layouts(context, sources));
        return {};
    };
    const std::vector kinds{spec::JobKind::Train, spec::JobKind::Resume};
    ROLL_TRY(const std::string text,
             one_document(file, fmt::format("rollctl {}", verb), kinds, options, choose));
    ROLL_TRY(const std::string document, in_memory(text));
    std::vector<std::string> words = {verb, "--spec", document};
    if (context.json) words.emplace_back("--json");
    return words;
}

Result<int> run_plan(const Context& context, const std::string& file, const PlanFiles& files,
                     const JobOptions& options) {
    std::vector<Json> layouts;
    ROLL_TRY(std::vector<std::string> words, words_for("plan", context, file, options, layouts));
    if (context.json && !layouts.empty()) {
        ROLL_TRY(const std::string report, in_memory(layouts.front().dump()));
        words.insert(words.end(), {"--layout-search", report});
    } else if (!layouts.empty()) {
        for (const std::string& line : layout_lines(layouts.front()))
            print(for_terminal(context, line) + "\n");
    }
    for (const auto& [option, path] : {std::pair{"--svg", files.svg}, {"--trace", files.trace}}) {
        if (path.empty()) continue;
        words.emplace_back(option);
        words.push_back(path);
    }
    return tl::unexpected(become("roll-rank", words));
}

Result<int> run_prove(const Context& context, const std::string& file, const JobOptions& options) {
    std::vector<Json> layouts;
    ROLL_TRY(const std::vector<std::string> words,
             words_for("prove", context, file, options, layouts));
    for (const Json& layout : layouts)
        for (const std::string& line : layout_lines(layout)) say(for_terminal(context, line));
    return tl::unexpected(become("roll-rank", words));
}

}  // namespace roll::cli
