// roll-rank: runs one rank of a train job. Also samples text (generate), reports plans (plan), and
// checks that a layout computes the same numbers as one rank (prove).
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/help_format.hpp"
#include "common/processor.hpp"
#include "common/program_end.hpp"
#include "common/protocol/client.hpp"
#include "common/spec/schema/units.hpp"
#include "common/wrapped.hpp"
#include "worker/convert/read/open.hpp"
#include "worker/train/data/epochs.hpp"
#include "worker/train/data/preview.hpp"
#include "worker/train/job/check_export.hpp"
#include "worker/train/job/evaluate_model.hpp"
#include "worker/train/job/trainer.hpp"
#include "worker/train/model/generate.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/stage_choice.hpp"
#include "worker/train/process/deterministic.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/process/launch.hpp"
#include "worker/train/process/stacks.hpp"
#include "worker/train/prove/prove.hpp"
#include "worker/train/prove/report.hpp"
#include "worker/train/report/out_of_memory.hpp"
#include "worker/train/report/plan_report.hpp"
#include "worker/train/search/report.hpp"

namespace roll::train {
namespace {

struct Arguments {
    std::string launch;
    int rank = 0;
    std::string directory;
    std::optional<std::string> prompt;
    GenerateOptions text;
    std::string spec_file, svg, trace;
    std::string layout_search;        // file with the report of the search for the job's layout
    std::vector<std::string> search;  // keys whose values the search chooses
    int dp = 0;                       // data-parallel size that the search must keep; 0: any
    MemoryLimit memory;
    bool json = false;
    std::int64_t documents = 3;
    PreviewStyle style;
    EvaluationOptions evaluation;
    ExportCheck exported;
};

// Sets the number of threads to OMP_NUM_THREADS. If this variable is not set, sets the number to
// this rank's share of the cores.
void set_threads(int ranks_on_this_node) {
    const char* const told = std::getenv("OMP_NUM_THREADS");
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    const int threads = told != nullptr ? std::atoi(told) : cores / ranks_on_this_node;
    at::set_num_threads(std::max(threads, 1));
}

int train(const Arguments& arguments, WorkerLink& link) {
    need(find_processor());
    const protocol::Launch launch =
        need(protocol::decode_launch(need(read_file(arguments.launch))));
    if (arguments.rank < 0 || arguments.rank >= launch.world_size())
        throw RankFailure(
            2, "--rank " + std::to_string(arguments.rank) + " does not exist: the world size is " +
                   std::to_string(launch.world_size()) + ", and ranks are numbered from 0");
    set_threads(launch.ranks_per_node);
    if (launch.gpus.empty()) std::printf("processor: %s\n", processor_text(processor()).c_str());
    if (launch.kind == "tokenize") return tokenize_ahead(launch, link);
    const spec::TrainSpec spec = checked_spec(launch);
    if (spec.deterministic) {
        const std::string told = make_deterministic(!launch.gpus.empty());
        if (arguments.rank == 0) std::printf("%s\n", told.c_str());
    }
    Backend backend = take_backend(launch, arguments.rank);
    std::optional<TrainingData> data = prepare_training(launch, arguments.rank, link);
    if (!data) return protocol::kExitYielded;
    data->spec.parallel = with_stages(data->spec, data->model.config);
    const auto explained = [&](const OutOfMemory& failure) {
        const spec::ModelConfig model = setup_model(spec, candidates_of(launch), true).config;
        return RankFailure(
            1, out_of_memory_text(spec, model, arguments.rank, !launch.gpus.empty(), failure));
    };
    try {
        Trainer trainer(launch, arguments.rank, link, *std::move(data), std::move(backend));
        return trainer.run();
    } catch (const OutOfMemory& failure) {
        throw explained(failure);
    } catch (const std::bad_alloc&) {
        throw explained(OutOfMemory(0));
    }
}

// Returns the value of `result`, or fails with the exit code of rollctl for the error. A rank's
// exit code for the error may be another one (status_of()).
template <class T>
T need_input(Result<T> result) {
    if (!result) throw RankFailure(exit_code(result.error().code), sentence_of(result.error()));
    return *std::move(result);
}

// Fails with the exit code that rollctl uses for a missing file. The exit code of a rank for this
// error (status_of()) is another one.
void need_file(const std::string& path) {
    std::error_code error;
    if (!std::filesystem::exists(path, error))
        throw RankFailure(exit_code(ErrorCode::NotFound), path + " does not exist");
}

// The command line parser does not require the prompt, so that a missing model is reported first.
int generate(const Arguments& arguments) {
    need_file(arguments.directory);
    if (!arguments.prompt)
        throw RankFailure(exit_code(ErrorCode::InvalidArgument),
                          "PROMPT is required\n  next: rollctl generate --help");
    need_input(convert::detect_format(arguments.directory));
    set_threads(1);
    const std::string text = generate_text(arguments.directory, *arguments.prompt, arguments.text);
    const OrderedJson json = {
        {"schema", "roll.generate/1"}, {"prompt", *arguments.prompt}, {"text", text}};
    const std::string out = arguments.json
                                ? json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace)
                                : *arguments.prompt + text;
    std::printf("%s\n", out.c_str());
    return 0;
}

// Measures a model on tasks and texts.
int evaluate(const Arguments& arguments) {
    need_file(arguments.evaluation.directory);
    for (const std::string& file : arguments.evaluation.tasks) need_file(file);
    for (const std::string& file : arguments.evaluation.texts) need_file(file);
    need_input(convert::detect_format(arguments.evaluation.directory));
    set_threads(1);
    const OrderedJson json = evaluate_model(arguments.evaluation);
    const std::string text =
        arguments.json ? json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n"
                       : evaluation_text(json);
    std::printf("%s", text.c_str());
    return 0;
}

// Breaks the report's long lines at spaces if stdout is a terminal. The lines of a report begin
// with titles of 12 columns.
std::string for_terminal(const std::string& report) {
    constexpr std::size_t kTitle = 12;
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return report;
    return wrapped(report, size.ws_col, kTitle);
}

// Prints the plan of a job. The spec file is a train job's document, or a job file in JSON with
// absolute paths.
int plan(const Arguments& arguments) {
    const std::string document = need(read_file(arguments.spec_file));
    spec::TrainSpec spec = need(spec::train_spec(document));
    if (spec.epochs > 0 && spec.steps == 0) plan_epochs(spec);
    const Json resources = need(parse_json(document)).value("resources", Json::object());
    const bool on_gpu = resources.value("gpus_per_node", 0.0) > 0;
    OrderedJson json = plan_json(spec, on_gpu, resources.value("nodes", 1));
    if (const Json time = resources.value("time", Json()); time.is_string())
        add_time_limit(json, need(spec::parse_duration(time.get<std::string>())));
    if (!arguments.layout_search.empty())
        json["layout_search"] = OrderedJson::parse(need(read_file(arguments.layout_search)));
    if (!arguments.svg.empty() || !arguments.trace.empty()) {
        const PlanDrawing drawing = plan_drawing(spec, on_gpu);
        if (!arguments.svg.empty()) need(write_file_atomically(arguments.svg, drawing.svg));
        if (!arguments.trace.empty()) need(write_file_atomically(arguments.trace, drawing.trace));
    }
    std::printf("%s\n", (arguments.json ? json.dump() : for_terminal(plan_text(json))).c_str());
    return 0;
}

// Chooses the layout of a job, and prints the report of the search. Takes the same kinds of spec
// file as plan(). The file must have a legal value for each key that is searched.
int choose_layout(const Arguments& arguments) {
    const std::string document = need(read_file(arguments.spec_file));
    const spec::TrainSpec spec = need(spec::train_spec(document));
    const Json resources = need(parse_json(document)).value("resources", Json::object());
    const spec::ParallelSpec& p = spec.parallel;
    SearchSpace space{.dp = arguments.dp,
                      .ranks = p.replicas() * p.tp * p.pp,
                      .on_gpu = resources.value("gpus_per_node", 0.0) > 0};
    space.ranks_per_node = std::max(space.ranks / resources.value("nodes", 1), 1);
    for (const std::string& key : arguments.search) search_key(space, key);
    std::printf("%s\n", chosen_layout_json(spec, space, arguments.memory).dump().c_str());
    return 0;
}

// Returns the bugs that the environment variable ROLL_PROVE_PLANT names. prove() adds these bugs to
// the communication between the ranks, so that tests can show that prove() finds them.
std::vector<Plant> planted_bugs() {
    const char* const words = std::getenv("ROLL_PROVE_PLANT");
    if (words == nullptr) return {};
    std::fprintf(stderr, "note: ROLL_PROVE_PLANT plants a bug: %s\n", words);
    return {need(parse_plant(words))};
}

// Prints a message that begins with the name of this program: roll-rank or roll-rank-cuda.
void complain(const std::string& sentence) {
    std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, sentence.c_str());
}

// Checks that the job's layout computes the same numbers as one rank. Takes the same kinds of spec
// file as plan().
int prove_layout(const Arguments& arguments) {
    set_threads(1);
    const std::string document = need(read_file(arguments.spec_file));
    const spec::TrainSpec spec = need(spec::train_spec(document));
    check_spec(spec);
    const ModelSetup model = setup_model(spec, {}, true);
    const OrderedJson json = proof_json(spec, prove(spec, model, planted_bugs()));
    std::printf("%s\n", (arguments.json ? json.dump() : for_terminal(proof_text(json))).c_str());
    if (json["proven"].get<bool>()) return 0;
    std::fflush(stdout);
    complain(failure_text(json));
    return 1;
}

int check_exported(const Arguments& arguments) {
    set_threads(1);
    check_export(arguments.exported);
    return 0;
}

// Prints the first documents of a job's data.
int preview_data(const Arguments& arguments) {
    const std::string document = need(read_file(arguments.spec_file));
    spec::TrainSpec spec = need(spec::tokenize_spec(document));
    const Json::json_pointer length("/train/seq_length");
    const Json json = need(parse_json(document));
    if (json.contains(length)) spec.seq_length = json[length].get<std::int64_t>();
    const std::vector<PreviewFile> files = preview(spec, arguments.documents);
    const std::string text =
        arguments.json
            ? preview_json(files).dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n"
            : preview_text(files, arguments.style);
    std::printf("%s", text.c_str());
    return 0;
}

// Returns the kind of error with which a command ends with this exit status.
ErrorCode code_of(int status) {
    for (const ErrorCode code :
         {ErrorCode::InvalidArgument, ErrorCode::NotFound, ErrorCode::Refused})
        if (exit_code(code) == status) return code;
    return ErrorCode::Failed;
}

using Tell = std::function<void(int status, const std::string& sentence)>;

// Runs `command` and returns its exit status. If the command throws, passes this error's exit
// status and the error as one sentence to `tell`, and returns the exit status.
int run(const std::function<int()>& command, const Tell& tell) {
    const auto failed = [&](int status, const std::string& sentence) {
        tell(status, sentence);
        return status;
    };
    try {
        return command();
    } catch (const RankFailure& e) {
        return failed(e.status(), e.what());
    } catch (const PeerLost& e) {
        return failed(protocol::kExitPeerLost, e.what());
    } catch (const std::bad_alloc&) {
        return failed(1, "out of memory");
    } catch (const c10::Error& e) {
        return failed(1, e.what_without_backtrace());
    } catch (const std::exception& e) {
        return failed(1, e.what());
    }
}

void add_generate_options(CLI::App& command, Arguments& arguments) {
    command.add_option("DIR", arguments.directory, "Directory of a model with its tokenizer")
        ->required();
    command.add_option("PROMPT", arguments.prompt, "Text to continue; required");
    command
        .add_option("--max-tokens", arguments.text.max_tokens, "Maximum number of tokens to add")
        ->check(CLI::PositiveNumber);
    command
        .add_option("--temperature", arguments.text.temperature,
                    "Sampling temperature; 0 always takes the most likely token")
        ->check(CLI::NonNegativeNumber);
    command
        .add_option("--top-p", arguments.text.top_p,
                    "Sample from the most likely tokens up to this total probability")
        ->check(CLI::Range(0.0, 1.0));
    command.add_option("--seed", arguments.text.seed,
                       "Seed of the sampling; the same seed gives the same text");
    command.add_flag("--json", arguments.json, "Print one JSON object (roll.generate/1)");
}

void add_preview_options(CLI::App& previewing, Arguments& arguments) {
    previewing.add_option("--spec", arguments.spec_file, "The job's document, JSON")->required();
    previewing.add_option("--documents", arguments.documents, "Documents to show from each file");
    previewing.add_option("--columns", arguments.style.columns, "Width of a line")
        ->check(CLI::Range(20, 1000));
    previewing.add_flag("--color", arguments.style.color,
                        "Show the text that counts in the loss in green");
    previewing.add_flag("--json", arguments.json, "Print one JSON object (roll.data_preview/1)");
}

void add_evaluation_options(CLI::App& command, Arguments& arguments) {
    EvaluationOptions& options = arguments.evaluation;
    command.add_option("DIR", options.directory, "Directory of a model with its tokenizer")
        ->required();
    command.add_option("--task", options.tasks,
                       "File of a multiple-choice task of lm-evaluation-harness; repeatable");
    command
        .add_option("--num-fewshot", options.fewshot,
                    "Examples in front of each question [the task's num_fewshot]")
        ->check(CLI::Range(0, 1000));
    command.add_option("--data", options.texts,
                       "A .txt, .jsonl or .bin file, for the perplexity; repeatable");
    command.add_option("--field", options.field,
                       "Field of a .jsonl line that contains the text [text]");
    command
        .add_option("--seq-length", options.seq_length,
                    "Length of a sequence in tokens [the model's maximum, at most 2048]")
        ->check(CLI::PositiveNumber);
    command.add_flag("--log-probs", options.log_probs,
                     "Also report the log-probability of each choice");
    command.add_flag("--json", arguments.json, "Print one JSON object (roll.eval/1)");
}

void add_check_options(CLI::App& command, ExportCheck& check) {
    command.add_option("EXPORT", check.directory, "Directory of the export")->required();
    command.add_option("CHECKPOINT", check.checkpoint, "The exported checkpoint")->required();
    command.add_option("--dtype", check.dtype, "Number type of the exported weights [fp32]")
        ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
    command.add_option("--base", check.base, "Base model of a LoRA job");
    command.add_option("--adapter", check.adapters,
                       "Adapter that the job merged into the base model; repeatable");
    command.add_flag("--is-adapter", check.is_adapter, "The export is an adapter");
    command.add_flag("--averaged", check.averaged, "The export has the averaged weights");
}

void add_layout_options(CLI::App& command, Arguments& arguments) {
    command.add_option("--spec", arguments.spec_file, "The job's document, JSON")->required();
    command
        .add_option("--search", arguments.search,
                    "Layout key that the search chooses, for example tp; repeatable")
        ->required();
    command.add_option("--dp", arguments.dp, "Data-parallel size, if the job sets it");
    command.add_option("--memory-limit", arguments.memory.bytes,
                       "Bytes of memory that a rank may use");
    command.add_option("--memory-from", arguments.memory.from,
                       "Where the memory limit comes from; messages about the limit name it");
}

void add_plan_options(CLI::App& command, Arguments& arguments) {
    command.add_option("--spec", arguments.spec_file, "The job's document, JSON")->required();
    command.add_flag("--json", arguments.json, "Print one JSON object (roll.plan/1)");
    command.add_option("--svg", arguments.svg, "Draw the pipeline schedule in this SVG file");
    command.add_option("--trace", arguments.trace, "Write the schedule as a Chrome trace");
    command.add_option(
        "--layout-search", arguments.layout_search,
        "File with the report of the layout search; --json adds the report to its object");
}

void add_prove_options(CLI::App& command, Arguments& arguments) {
    command.add_option("--spec", arguments.spec_file, "The job's document, JSON")->required();
    command.add_flag("--json", arguments.json, "Print one JSON object (roll.prove/1)");
}

int main(int argc, char** argv) {
    if (const Result<Processor> found = find_processor()) limit_libraries(*found);
    Arguments arguments;
    CLI::App app("Run one rank of a Roll train job, sample text or report a plan");
    app.formatter(std::make_shared<HelpFormat>());
    app.set_version_flag("--version", "roll-rank " ROLL_VERSION, "Print the version");
    app.add_option("--launch", arguments.launch, "Launch file that roll-worker wrote");
    app.add_option("--rank", arguments.rank, "Number of this rank in the job, from 0");
    CLI::App* sampling = app.add_subcommand("generate", "Generate text with an HF or MCA model");
    add_generate_options(*sampling, arguments);
    CLI::App* planning =
        app.add_subcommand("plan", "Report what a train job would do, without running it");
    add_plan_options(*planning, arguments);
    CLI::App* searching =
        app.add_subcommand("layout", "Choose the layout of a train job; prints roll.layout/1");
    add_layout_options(*searching, arguments);
    CLI::App* proving = app.add_subcommand("prove",
                                           "Run a job's layout with the smallest possible sizes, "
                                           "and compare the results with those of one rank");
    add_prove_options(*proving, arguments);
    CLI::App* previewing =
        app.add_subcommand("preview", "Show the first documents of a job's data, as tokens");
    add_preview_options(*previewing, arguments);
    CLI::App* checking = app.add_subcommand(
        "check-export", "Compare the logits of an export with those of its checkpoint");
    add_check_options(*checking, arguments.exported);
    CLI::App* evaluating =
        app.add_subcommand("eval", "Evaluate an HF or MCA directory on tasks and texts");
    add_evaluation_options(*evaluating, arguments);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);  // --help and --version
        complain(std::string(e.what()) + "\n  next: roll-rank --help");
        return 2;
    }
    const auto on_stderr = [&](int status, const std::string& sentence) {
        if (arguments.json)
            std::printf("%s\n", dump(protocol::error_json({code_of(status), sentence})).c_str());
        complain(sentence);
    };
    const auto checked = [&](auto command) {
        return check_output(program_invocation_short_name,
                            run([&] { return command(arguments); }, on_stderr));
    };
    if (*sampling) return checked(generate);
    if (*checking) return checked(check_exported);
    if (*evaluating) return checked(evaluate);
    if (*previewing) return checked(preview_data);
    if (*planning) return checked(plan);
    if (*searching) {
        arguments.json = true;
        return checked(choose_layout);
    }
    if (*proving) return checked(prove_layout);
    if (arguments.launch.empty()) {
        complain(
            "give --launch FILE --rank R, or a command: generate, eval, plan, layout, prove, "
            "preview, check-export");
        return 2;
    }
    dump_stacks_on_signal();
    WorkerLink link;
    const auto report = [&](int, const std::string& sentence) {
        std::fprintf(stderr, "error: %s\n", sentence.c_str());
        link.report(protocol::Failed{sentence});
    };
    return run([&] { return train(arguments, link); }, report);
}

}  // namespace
}  // namespace roll::train

int main(int argc, char** argv) {
    roll::replace_closed_streams();
    const int status = roll::train::main(argc, argv);
    // End without calling destructors. A process group's destructor would wait for peers that are
    // dead.
    std::fflush(nullptr);
    ::_exit(status);
}
