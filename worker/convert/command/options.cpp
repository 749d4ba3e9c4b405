#include "worker/convert/command/options.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "common/help_format.hpp"
#include "common/number.hpp"
#include "common/spec/schema/nearest.hpp"
#include "common/spec/schema/units.hpp"
#include "worker/formats/nemo.hpp"

namespace roll::convert {
namespace {

tl::unexpected<Error> invalid(std::string what) {
    return fail(ErrorCode::InvalidArgument, std::move(what), "roll-convert --help");
}

// ROLL's options that affect only how a model runs. A = after a name means that the option has a
// value.
constexpr const char* kIgnored =
    "context-parallel-size= recompute-granularity= recompute-method= recompute-modules= fp8= "
    "recompute-num-layers= moe-token-dispatcher-type= moe-aux-loss-coeff= mtp-num-layers= "
    "moe-expert-capacity-factor= moe-token-drop-policy= moe-router-dtype= cuda-graph-impl= "
    "cuda-graph-scope= fp8-recipe= additional-configs= sequence-parallel overlap-p2p-comm "
    "no-overlap-p2p-comm variable-seq-lengths apply-rope-fusion bias-activation-fusion fp8-param "
    "cross-entropy-loss-fusion moe-layer-recompute moe-pad-expert-input-to-capacity "
    "moe-shared-expert-overlap moe-enable-routing-replay calculate-per-token-loss";

constexpr const char* kQueued =
    "With --submit, rollctl queues the work as a job and also accepts --wait, --follow, --nodes N "
    "(N nodes write the target together), --after, --hold, --name and --time.";

Result<std::string> parse_name(const std::string& name) {
    const bool is_plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
    });
    if (is_plain) return name;
    return invalid("--name accepts only letters, digits, `.`, `_` and `-`, not \"" + name + "\"");
}

Result<std::int64_t> parse_bytes(const std::string& text) {
    const auto size = spec::parse_size(text);
    if (size && *size > 0 && std::in_range<std::int64_t>(*size))
        return static_cast<std::int64_t>(*size);
    return invalid("\"" + text +
                   "\" is not a size; use for example 5GB, 512MiB or a number of bytes");
}

// Parses a text such as "2/8", which means the third of eight parts.
Result<Part> parse_part(const std::string& text) {
    const std::size_t slash = std::min(text.find('/'), text.size() - 1);
    const auto index = parse_number<int>(text.substr(0, slash));
    const auto count = parse_number<int>(text.substr(slash + 1));
    if (index && count && *index >= 0 && *index < *count && *count <= 4096)
        return Part{*index, *count, ""};
    return invalid("--part must be I/N with I from 0 to N-1, not " + text);
}

// Parses one command line with CLI11.
class Parser {
  public:
    Parser() {
        app_.formatter(std::make_shared<HelpFormat>());
        app_.require_subcommand(0, 1);
        app_.add_flag("--json", json_, "Print JSON");
        app_.add_flag("--version", version_, "Print the version");
        app_.add_option("--launch", launch_, "Launch file that roll-worker wrote");
        app_.footer(
            "In rollctl, job:ID in place of a directory is the newest checkpoint of that job. "
            "Option "
            "names may use - or _.");
        add_conversions();
        add_readers();
        add_edit("rename", "OLD=NEW", "Rename tensors: SRC DST OLD=NEW...; * matches any text");
        add_edit("remove", "NAME", "Remove tensors: SRC DST NAME...; * matches any text");
        add_families();
    }

    Result<CommandLine> parse(std::span<const std::string> arguments) {
        try {
            std::vector<std::string> words = words_of(arguments);
            std::reverse(words.begin(), words.end());  // CLI11 expects the words in reverse order
            app_.parse(std::move(words));
        } catch (const CLI::CallForHelp&) {
            return HelpCommand{app_.help()};
        } catch (const CLI::ParseError& e) {
            return tl::unexpected(usage_error(e));
        }
        if (arguments.empty()) return HelpCommand{app_.help()};
        if (version_) return VersionCommand{};
        if (launch_.empty()) return chosen_ ? chosen_() : invalid("no command is given");
        if (arguments.size() > 2) return invalid("--launch accepts one file and nothing else");
        return LaunchCommand{launch_};
    }

  private:
    static bool is_true_or_false(const std::string& word) {
        static const std::set<std::string> kAll{"true", "1", "yes", "false", "0", "no"};
        return kAll.contains(CLI::detail::to_lower(word));
    }

    // Converts the arguments to the form that CLI11 expects. Each _ in an option's name becomes -.
    // `--flag true` becomes `--flag=true`. If an option belongs to ROLL's or trlX's tool, `convert`
    // is added in front of the options.
    std::vector<std::string> words_of(std::span<const std::string> arguments) {
        std::vector<std::string> words;
        for (std::string word : arguments) {
            const std::string name = word.substr(0, word.find('='));
            if (!words.empty() && flags_.contains(words.back()) && is_true_or_false(word)) {
                words.back() += "=" + word;
                continue;
            }
            if (name.starts_with("--"))
                std::replace_copy(name.begin(), name.end(), word.begin(), '_', '-');
            if (word.size() > name.size() && flags_.contains(word.substr(0, name.size())) &&
                !is_true_or_false(word.substr(name.size() + 1)))
                throw CLI::ValidationError(word + ": must be true or false");
            is_roll_ |= word.starts_with("--checkpoint-path");
            is_trlx_ |= word.starts_with("--model-path");
            words.push_back(std::move(word));
        }
        if ((is_roll_ || is_trlx_) && words.front().starts_with("--"))
            words.insert(words.begin(), "convert");
        return words;
    }

    Error usage_error(const CLI::ParseError& e) const {
        const auto chosen = app_.get_subcommands();
        const CLI::App& app = chosen.empty() ? app_ : *chosen[0];
        Error error{ErrorCode::InvalidArgument, e.what(), "roll-convert --help"};
        if (!chosen.empty()) error.hint = "roll-convert " + app.get_name() + " --help";
        const auto code = static_cast<CLI::ExitCodes>(e.get_exit_code());
        if (code == CLI::ExitCodes::ArgumentMismatch)
            error.message = error.message.substr(0, error.message.find(':')) +
                            " needs one value and can be given once";
        if (code != CLI::ExitCodes::ExtrasError) return error;
        const std::string given = app_.remaining(true).front();
        const std::string word = given.substr(0, given.find('='));
        std::vector<std::string> known;
        const char* kind = chosen.empty() ? "unknown command `" : "unexpected argument `";
        if (word.starts_with("-")) {
            kind = "unknown option `";
            for (const CLI::Option* one : app.get_options())
                for (const std::string& name : one->get_lnames()) known.push_back("--" + name);
        } else {
            for (const CLI::App* sub : app.get_subcommands(nullptr))
                known.push_back(sub->get_name());
        }
        error.message = kind + word + "`" + spec::did_you_mean(word, known);
        return error;
    }

    using Finish = std::function<Result<CommandLine>()>;
    CLI::App& command(const std::string& name, const std::string& what, Finish finish) {
        CLI::App* sub = app_.add_subcommand(name, what);
        sub->fallthrough();  // accept --json also after the command
        sub->callback([this, finish = std::move(finish)] { chosen_ = finish; });
        return *sub;
    }

    // Adds an option. `parse` converts its text to a Result.
    template <class Value, class Parse>
    static CLI::Option* value(CLI::App& sub, const std::string& names, Value& into, Parse parse,
                              const std::string& what) {
        const auto read = [&into, parse](const std::string& text) {
            auto parsed = parse(text);
            if (!parsed) throw CLI::ValidationError(parsed.error().message);
            into = *std::move(parsed);
        };
        return sub.add_option_function<std::string>(names, read, what);
    }

    // Adds an option with a value from 1 to 4096. The value "None", which ROLL's tools write, means
    // the default.
    template <class Number>
    static void size(CLI::App& sub, const std::string& names, Number& into, const char* what) {
        const auto check = [&into](std::string& text) {
            if (text == "None")
                text = std::to_string(into);
            else if (!CLI::Range(1, 4096)(text).empty())
                return "must be 1 to 4096, not " + text;
            return std::string();
        };
        sub.add_option(names, into, what)->transform(CLI::Validator(check, ""))->type_name("N");
    }

    // Adds a flag. The word true or false may follow the flag.
    template <class Bool>
    CLI::Option* flag(CLI::App& sub, const std::string& name, Bool& into, const char* what) {
        flags_.insert(name);
        return sub.add_flag_function(
            name, [&into](auto count) { into = count > 0; }, what);
    }

    void add_conversions() {
        CLI::App& convert = command("convert",
                                    "Convert a checkpoint; without --to, HuggingFace to MCA and "
                                    "any other format to HuggingFace",
                                    [this] { return finish(); });
        convert.add_option("SRC,--checkpoint-path,--model-path", request_.source, "Checkpoint");
        convert.add_option("DST,--output-path,--output-folder", request_.target, "New directory");
        convert.add_option("--adapter,--adapter-path", request_.adapter_source,
                           "Convert the LoRA adapters in this directory, not the model: "
                           "PEFT <-> MCA");
        convert.add_flag("--optimizer", request_.optimizer,
                         "Also convert the optimizer's main weights and moments; only with --to "
                         "torch_dist or mca");
        convert
            .add_option("--optimizer-kind", request_.optimizer_kind,
                        "Megatron's kind of the written optimizer state; dp_reshardable can be "
                        "loaded only with the same tp, pp and vpp [fully_reshardable]")
            ->check(CLI::IsMember({kFullyReshardable, kDpReshardable}));
        convert
            .add_option(
                "--bucket-size,--ddp-bucket-size", request_.bucket_size,
                "For dp_reshardable: number of elements of a full gradient bucket (Megatron's "
                "ddp_bucket_size with overlap_grad_reduce) [one bucket for each chunk]")
            ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40U))
            ->type_name("N");
        value(
            convert, "--grad-dtype", request_.grad_dtype, parse_grad_dtype,
            "For dp_reshardable: type of the gradients of the run that loads the state: fp32, bf16 "
            "or fp16 [fp32]");
        CLI::App& merge = command("merge", "Merge a LoRA adapter into its base: BASE ADAPTER DST",
                                  [this] { return finish(); });
        merge.add_option("BASE", request_.source, "Model to merge into")->required();
        merge.add_option("ADAPTER", adapter_, "PEFT or native adapter")->required();
        merge.add_option("DST", request_.target, "New directory")->required();
        merge.add_flag("--unmerge", request_.unmerge, "Subtract an adapter that was merged");
        convert.footer(std::string(kQueued) +
                       " Also accepts the arguments of ROLL's tools/convert.py (--checkpoint_path, "
                       "...) and of trlX's converter (--model_path, ...).");
        merge.footer(kQueued);
        for (CLI::App* sub : {&convert, &merge}) {
            add_reading(*sub);
            add_target(*sub);
            add_layout(*sub);
        }
    }

    void add_target(CLI::App& sub) {
        value(sub, "--to", request_.to, parse_format,
              "hf, bin, mca, torch_dist, dcp, fsdp_dtensor, megatron or nemo");
        value(sub, "--dtype", dtype_, parse_dtype_name,
              "keep, fp32, bf16, fp16 or fp8 (linear layers, in blocks)");
        flag(sub, "--bf16", bf16_, "The same as --dtype bf16");
        flag(sub, "--fp16", fp16_, "The same as --dtype fp16");
        value(sub, "--name", request_.name, parse_name,
              "Name of the model in the configs of a NeMo target [model]");
        value(sub, "--max-shard-size", request_.shard_bytes, parse_bytes,
              "Maximum size of a weight file (hf) [5GB]");
        value(sub, "--convert-model-max-length", request_.model_max_length, parse_bytes,
              "model_max_length of a HuggingFace target");
        sub.add_option("--reuse", request_.reuse,
                       "Hard-link files that this earlier target already has");
        value(sub, "--part", request_.part, parse_part, "I/N: write part I of N of the target");
        sub.add_option(
               "--run", request_.part.run,
               "With --part: name of this run, the same for all its parts and new for each run; "
               "for example $SLURM_JOB_ID.$SLURM_STEP_ID")
            ->needs("--part");
        sub.get_option("--part")->needs("--run");
        size(sub, "--threads", request_.threads, "Number of threads [number of cores, at most 4]");
        sub.add_flag("--overwrite", request_.overwrite, "Replace the target");
        sub.add_flag("--dry-run", request_.dry_run, "Print the plan; write nothing");
        sub.add_flag("--verify", request_.verify, "Read the target and compare it with SRC");
        for (const std::string& name : CLI::detail::split(kIgnored, ' ')) {
            const std::string word = "--" + name.substr(0, name.find('='));
            const bool is_flag = !name.ends_with('=');
            ignored_.push_back(is_flag ? flag(sub, word, unused_, "") : sub.add_option(word));
            ignored_.back()->group("");  // hide the option in the help
        }
    }

    void add_layout(CLI::App& sub) {
        formats::McaLayout& layout = request_.layout;
        size(sub, "--tp,--tensor-model-parallel-size,--total-tp", layout.tp,
             "Tensor-parallel size");
        size(sub, "--pp,--pipeline-model-parallel-size", layout.pp, "Pipeline stages");
        size(sub, "--vpp,--virtual-pipeline-model-parallel-size", layout.vpp, "Chunks per stage");
        size(sub, "--ep,--expert-model-parallel-size", layout.ep, "Expert-parallel size");
        size(sub, "--etp,--expert-tensor-parallel-size", layout.etp,
             "Tensor-parallel size of experts");
        sub.add_option(
            "--layout,--pipeline-model-parallel-layout", layout.pipeline,
            "Layers of each pipeline stage, for example E,t*3|t,L: E is the embedding, t a "
            "decoder layer, m an MTP layer, L the output layer");
        size(sub, "--decoder-first-pipeline-num-layers,--num-layers-in-first-pipeline-stage",
             layout.first_layers, "Number of layers of the first pipeline stage");
        size(sub, "--decoder-last-pipeline-num-layers,--num-layers-in-last-pipeline-stage",
             layout.last_layers, "Number of layers of the last pipeline stage");
        flag(sub, "--account-for-embedding-in-pipeline-split", layout.account_for_embedding,
             "Count the embedding as a layer");
        flag(sub, "--account-for-loss-in-pipeline-split", layout.account_for_loss,
             "Count the output layer as a layer");
        flag(sub, "--moe-grouped-gemm", request_.grouped_experts,
             "Write experts under the tensor names of Megatron's grouped GEMM");
        sub.add_option(
               "--transformer-impl", implementation_,
               "Name the norms as Megatron does with (transformer_engine) or without (local) "
               "TransformerEngine [as in SRC]")
            ->check(CLI::IsMember({"local", "transformer_engine"}));
        size(sub, "--make-vocab-size-divisible-by", request_.vocab_divisor,
             "Pad the vocabulary with zero rows to a multiple of this value times tp");
        sub.add_option(
               "--checkpoint-version", request_.megatron_version,
               "Checkpoint version of a Megatron target; 0 to 2 are older than Megatron Core [3]")
            ->check(CLI::IsMember({0, 1, 2, 3}));
        sub.add_option(
               "--mtp-layer-name", mtp_name_,
               "Name of the layer in an MTP module; Megatron 0.17 and later use mtp_model_layer")
            ->check(CLI::IsMember({"transformer_layer", "mtp_model_layer"}));
    }

    // Adds the options for opening a checkpoint, which several commands have.
    void add_reading(CLI::App& sub) {
        sub.add_option(
            "--config", request_.config,
            "HuggingFace directory, config.json or family that gives the model's config");
        sub.add_option("--state", request_.state,
                       "Read this optimizer state instead of the weights, for example fp32_param");
        value(sub, "--strictness,--dist-ckpt-strictness", request_.strictness, parse_strictness,
              "What to do if the checkpoint lacks tensors or has unknown tensors [raise_all]");
    }

    void add_readers() {
        CLI::App& inspect = command("inspect", "List a checkpoint's tensors", [this] {
            return InspectCommand{request_.source, opening(), tensor_, json_};
        });
        inspect.add_option("--tensor", tensor_, "Print the statistics of this tensor instead");
        CLI::App& verify = command("verify", "Check a checkpoint for damage", [this] {
            return VerifyCommand{request_.source, opening(), json_};
        });
        CLI::App& diff = command("diff", "Compare two checkpoints by tensor", [this] {
            return DiffCommand{request_.source, request_.target, opening(), cast_, json_};
        });
        diff.add_flag("--cast", cast_, "Cast the tensors of A to the types of B first");
        diff.add_option("A", request_.source, "First checkpoint")->required();
        diff.add_option("B", request_.target, "Second checkpoint")->required();
        for (CLI::App* sub : {&inspect, &verify})
            sub->add_option("DIR", request_.source, "Checkpoint")->required();
        for (CLI::App* sub : {&inspect, &verify, &diff}) add_reading(*sub);
    }

    void add_edit(const std::string& name, const std::string& form, const std::string& what) {
        CLI::App& sub = command(name, what, [this, name]() -> Result<CommandLine> {
            EditRequest request{request_.source, request_.target, {}, request_.overwrite};
            for (const std::string& text : rules_) {
                ROLL_TRY(NameRule rule,
                         name == "remove" ? Result<NameRule>({text, {}}) : parse_renaming(text));
                request.rules.push_back(std::move(rule));
            }
            return EditCommand{std::move(request), json_};
        });
        sub.add_option("SRC", request_.source, "Checkpoint to copy")->required();
        sub.add_option("DST", request_.target, "New directory")->required();
        sub.add_option("RULES", rules_, form + ", once or more")->required();
        sub.add_flag("--overwrite", request_.overwrite, "Replace the target");
    }

    void add_families() {
        CLI::App& families =
            command("families", "List the model families, or check a family file", [this] {
                return FamiliesCommand{request_.source, json_};
            });
        CLI::App* check = families.add_subcommand("check", "Check a family file")->fallthrough();
        check->add_option("FILE", request_.source, "Family file")->required();
    }

    OpenOptions opening() const { return {request_.config, request_.strictness, request_.state}; }

    Result<CommandLine> finish() {
        if (!adapter_.empty()) request_.adapters = {adapter_};
        if (is_roll_ && request_.target.empty()) request_.target = "./output";
        if (request_.source.empty() || request_.target.empty())
            return invalid(
                "give a source and a target directory; one of them is missing or is empty");
        if (int{dtype_.has_value()} + int{bf16_} + int{fp16_} > 1)
            return invalid("use only one of --dtype, --bf16 and --fp16");
        if (dtype_) request_.dtype = *dtype_;
        if (bf16_ || (is_trlx_ && !dtype_ && !fp16_)) request_.dtype = tensor::DType::BF16;
        if (fp16_) request_.dtype = tensor::DType::F16;
        request_.newer_mtp_names = mtp_name_ == "mtp_model_layer";
        if (!implementation_.empty()) request_.local_names = implementation_ == "local";
        if (!request_.to && (is_trlx_ || formats::is_nemo_archive(request_.target)))
            request_.to = Format::Nemo;
        if (!request_.to && !request_.adapters.empty()) request_.to = Format::Hf;
        // Derives the number of virtual stages from the layout string, as ROLL does.
        formats::McaLayout& layout = request_.layout;
        const auto parts = 1 + std::ranges::count(layout.pipeline, '|');
        if (!layout.pipeline.empty() && layout.vpp == 1 && parts % layout.pp == 0)
            layout.vpp = static_cast<int>(parts / layout.pp);
        ConvertCommand command{request_, json_, {}};
        for (const CLI::Option* option : ignored_)
            if (option->count() > 0) command.ignored.push_back(option->get_lnames().front());
        return command;
    }

    CLI::App app_{"Convert checkpoints between formats, layouts and types, without Python or GPU",
                  "roll-convert"};
    Request request_;
    std::filesystem::path adapter_;
    std::string tensor_, launch_, implementation_, mtp_name_;
    std::vector<std::string> rules_;
    std::optional<std::optional<tensor::DType>> dtype_;
    bool bf16_ = false, fp16_ = false, unused_ = false, cast_ = false, json_ = false;
    bool version_ = false, is_roll_ = false, is_trlx_ = false;
    std::set<std::string> flags_;  // flags that may be followed by the word true or false
    std::vector<CLI::Option*> ignored_;
    Finish chosen_;
};

}  // namespace

Result<CommandLine> parse_command_line(std::span<const std::string> arguments) {
    return Parser().parse(arguments);
}

}  // namespace roll::convert
