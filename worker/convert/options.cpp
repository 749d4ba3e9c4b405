#include "worker/convert/options.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "common/number.hpp"

namespace roll::convert {
namespace {

tl::unexpected<Error> invalid(std::string what) {
    return fail(ErrorCode::InvalidArgument, std::move(what), "roll-convert --help");
}

enum class Takes { Nothing, Flag, Value };  // Flag: alone, or followed by true or false

struct Option {
    const char* name;
    Takes takes;
    const char* meaning;  // the option it is another name of; nullptr: itself; "": no effect here
};

// ROLL's arguments under our names, and those that change only how a model is run.
constexpr std::array<Option, 74> kOptions{{
    {"to", Takes::Value, nullptr},
    {"tp", Takes::Value, nullptr},
    {"pp", Takes::Value, nullptr},
    {"vpp", Takes::Value, nullptr},
    {"ep", Takes::Value, nullptr},
    {"etp", Takes::Value, nullptr},
    {"layout", Takes::Value, nullptr},
    {"dtype", Takes::Value, nullptr},
    {"adapter", Takes::Value, nullptr},
    {"config", Takes::Value, nullptr},
    {"name", Takes::Value, nullptr},
    {"model-path", Takes::Value, nullptr},
    {"output-folder", Takes::Value, nullptr},
    {"total-tp", Takes::Value, "tp"},
    {"max-shard-size", Takes::Value, nullptr},
    {"make-vocab-size-divisible-by", Takes::Value, nullptr},
    {"threads", Takes::Value, nullptr},
    {"overwrite", Takes::Nothing, nullptr},
    {"dry-run", Takes::Nothing, nullptr},
    {"verify", Takes::Nothing, nullptr},
    {"json", Takes::Nothing, nullptr},
    {"cast", Takes::Nothing, nullptr},
    {"checkpoint-path", Takes::Value, nullptr},
    {"output-path", Takes::Value, nullptr},
    {"adapter-path", Takes::Value, "adapter"},
    {"bf16", Takes::Flag, nullptr},
    {"fp16", Takes::Flag, nullptr},
    {"convert-model-max-length", Takes::Value, nullptr},
    {"tensor-model-parallel-size", Takes::Value, "tp"},
    {"pipeline-model-parallel-size", Takes::Value, "pp"},
    {"virtual-pipeline-model-parallel-size", Takes::Value, "vpp"},
    {"expert-model-parallel-size", Takes::Value, "ep"},
    {"expert-tensor-parallel-size", Takes::Value, "etp"},
    {"pipeline-model-parallel-layout", Takes::Value, "layout"},
    {"account-for-embedding-in-pipeline-split", Takes::Flag, nullptr},
    {"account-for-loss-in-pipeline-split", Takes::Flag, nullptr},
    {"decoder-first-pipeline-num-layers", Takes::Value, nullptr},
    {"decoder-last-pipeline-num-layers", Takes::Value, nullptr},
    {"num-layers-in-first-pipeline-stage", Takes::Value, "decoder-first-pipeline-num-layers"},
    {"num-layers-in-last-pipeline-stage", Takes::Value, "decoder-last-pipeline-num-layers"},
    {"moe-grouped-gemm", Takes::Flag, nullptr},
    {"transformer-impl", Takes::Value, nullptr},
    {"context-parallel-size", Takes::Value, ""},
    {"sequence-parallel", Takes::Flag, ""},
    {"overlap-p2p-comm", Takes::Flag, ""},
    {"no-overlap-p2p-comm", Takes::Flag, ""},
    {"variable-seq-lengths", Takes::Flag, ""},
    {"recompute-granularity", Takes::Value, ""},
    {"recompute-method", Takes::Value, ""},
    {"recompute-modules", Takes::Value, ""},
    {"recompute-num-layers", Takes::Value, ""},
    {"bias-activation-fusion", Takes::Flag, ""},
    {"apply-rope-fusion", Takes::Flag, ""},
    {"cross-entropy-loss-fusion", Takes::Flag, ""},
    {"moe-layer-recompute", Takes::Flag, ""},
    {"moe-token-dispatcher-type", Takes::Value, ""},
    {"moe-aux-loss-coeff", Takes::Value, ""},
    {"moe-expert-capacity-factor", Takes::Value, ""},
    {"moe-pad-expert-input-to-capacity", Takes::Flag, ""},
    {"moe-token-drop-policy", Takes::Value, ""},
    {"moe-shared-expert-overlap", Takes::Flag, ""},
    {"moe-enable-routing-replay", Takes::Flag, ""},
    {"moe-router-dtype", Takes::Value, ""},
    {"mtp-num-layers", Takes::Value, ""},
    {"calculate-per-token-loss", Takes::Flag, ""},
    {"cuda-graph-impl", Takes::Value, ""},
    {"cuda-graph-scope", Takes::Value, ""},
    {"fp8-recipe", Takes::Value, ""},
    {"fp8-param", Takes::Flag, ""},
    {"fp8", Takes::Value, ""},
    {"additional-configs", Takes::Value, ""},
    {"launch", Takes::Value, nullptr},
    {"help", Takes::Nothing, nullptr},
    {"version", Takes::Nothing, nullptr},
}};

constexpr std::array<std::pair<const char*, tensor::DType>, 3> kDtypes{
    {{"fp32", tensor::DType::F32}, {"bf16", tensor::DType::BF16}, {"fp16", tensor::DType::F16}}};

std::optional<bool> parse_bool(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    for (const char* yes : {"true", "1", "yes"})
        if (text == yes) return true;
    for (const char* no : {"false", "0", "no"})
        if (text == no) return false;
    return std::nullopt;
}

struct Words {
    std::vector<std::string> positional;
    std::map<std::string, std::string> options;  // by the name that it means
    std::vector<std::string> ignored;
};

class Splitter {
  public:
    explicit Splitter(std::span<const std::string> arguments) : rest_(arguments) {}

    Result<Words> split() {
        while (!rest_.empty()) {
            const std::string word = take();
            if (word.size() < 3 || !word.starts_with("--")) {
                words_.positional.push_back(word);
                continue;
            }
            ROLL_TRY_VOID(take_option(word));
        }
        return std::move(words_);
    }

  private:
    std::string take() {
        std::string word = rest_.front();
        rest_ = rest_.subspan(1);
        return word;
    }

    Result<void> take_option(const std::string& word) {
        const std::size_t equals = std::min(word.find('='), word.size());
        std::string name = word.substr(2, equals - 2);
        std::replace(name.begin(), name.end(), '_', '-');
        const auto* const option = std::find_if(
            kOptions.begin(), kOptions.end(), [&](const Option& one) { return name == one.name; });
        if (option == kOptions.end()) return invalid("there is no option --" + name);
        std::optional<std::string> value;
        if (equals < word.size()) value = word.substr(equals + 1);
        ROLL_TRY(const std::string given, value_of(*option, std::move(value)));
        if (option->meaning != nullptr && *option->meaning == '\0') {
            words_.ignored.push_back(name);
            return {};
        }
        const std::string key = option->meaning == nullptr ? name : option->meaning;
        if (!words_.options.emplace(key, given).second)
            return invalid("--" + key + " is given twice");
        return {};
    }

    Result<std::string> value_of(const Option& option, std::optional<std::string> given) {
        switch (option.takes) {
            case Takes::Nothing:
                if (given) return invalid(std::string("--") + option.name + " takes no value");
                return "true";
            case Takes::Flag:
                if (!given && !rest_.empty() && parse_bool(rest_.front())) given = take();
                if (given && !parse_bool(*given))
                    return invalid(std::string("--") + option.name + " is true or false, not " +
                                   *given);
                return !given || *parse_bool(*given) ? "true" : "false";
            case Takes::Value:
                if (!given && rest_.empty())
                    return invalid(std::string("--") + option.name + " needs a value");
                return given ? *given : take();
        }
        return "";
    }

    std::span<const std::string> rest_;
    Words words_;
};

// Reads options as they are asked for; finish() refuses those that nobody asked for.
class Options {
  public:
    explicit Options(std::map<std::string, std::string> values) : values_(std::move(values)) {}

    std::optional<std::string> text(const char* name) {
        const auto found = values_.find(name);
        if (found == values_.end()) return std::nullopt;
        std::string value = std::move(found->second);
        values_.erase(found);
        return value;
    }
    bool flag(const char* name) { return text(name) == "true"; }
    Result<void> size(const char* name, int& into) {
        const auto given = text(name);
        if (!given || *given == "None") return {};
        const auto value = parse_number<int>(*given);
        if (!value || *value < 1 || *value > 4096)
            return invalid(std::string("--") + name + " is 1 to 4096, not " + *given);
        into = *value;
        return {};
    }
    Result<void> finish() const {
        if (values_.empty()) return {};
        return invalid("--" + values_.begin()->first + " does not belong to this command");
    }

  private:
    std::map<std::string, std::string> values_;
};

Result<void> read_dtype(Options& options, Request& request) {
    const auto dtype = options.text("dtype");
    const bool bf16 = options.flag("bf16");
    const bool fp16 = options.flag("fp16");
    if (static_cast<int>(dtype.has_value()) + static_cast<int>(bf16) + static_cast<int>(fp16) > 1)
        return invalid("--dtype, --bf16 and --fp16 exclude each other");
    if (!dtype && !bf16 && !fp16) return {};
    ROLL_TRY(request.dtype, parse_dtype_name(bf16 ? "bf16" : fp16 ? "fp16" : *dtype));
    return {};
}

Result<void> read_layout(Options& options, Request& request) {
    formats::McaLayout& layout = request.layout;
    ROLL_TRY_VOID(options.size("tp", layout.tp));
    ROLL_TRY_VOID(options.size("pp", layout.pp));
    ROLL_TRY_VOID(options.size("vpp", layout.vpp));
    ROLL_TRY_VOID(options.size("ep", layout.ep));
    ROLL_TRY_VOID(options.size("etp", layout.etp));
    layout.account_for_embedding = options.flag("account-for-embedding-in-pipeline-split");
    layout.account_for_loss = options.flag("account-for-loss-in-pipeline-split");
    ROLL_TRY_VOID(options.size("decoder-first-pipeline-num-layers", layout.first_layers));
    ROLL_TRY_VOID(options.size("decoder-last-pipeline-num-layers", layout.last_layers));
    layout.pipeline = options.text("layout").value_or("");
    if (const auto grouped = options.text("moe-grouped-gemm"))
        request.grouped_experts = grouped == "true";
    if (const auto impl = options.text("transformer-impl")) {
        if (impl != "local" && impl != "transformer_engine")
            return invalid("--transformer-impl is local or transformer_engine, not " + *impl);
        request.local_names = impl == "local";
    }
    // As ROLL has it: the number of virtual stages follows from a layout string.
    if (!layout.pipeline.empty() && layout.vpp == 1) {
        const auto parts = 1 + std::count(layout.pipeline.begin(), layout.pipeline.end(), '|');
        if (parts % layout.pp == 0) layout.vpp = static_cast<int>(parts / layout.pp);
    }
    return {};
}

Result<void> read_places(Options& options, std::vector<std::string> positional, Request& request) {
    const auto source = options.text("checkpoint-path");
    const auto target = options.text("output-path");
    if (source) positional.insert(positional.begin(), *source);
    if (target) positional.push_back(*target);
    if (source && !target && positional.size() == 1) positional.emplace_back("./output");
    if (positional.size() != 2) return invalid("convert takes a source and a target directory");
    request.source = positional[0];
    request.target = positional[1];
    return {};
}

// Of trlX's converter, which loads in bf16.
void read_trlx(Options& options, std::vector<std::string>& positional, Request& request) {
    const auto source = options.text("model-path");
    const auto target = options.text("output-folder");
    if (!source || !target) return;
    positional = {*source, *target};
    request.to = Format::Nemo;
    request.dtype = tensor::DType::BF16;
}

Result<void> read_name(Options& options, Request& request) {
    const auto name = options.text("name");
    if (!name) return {};
    const bool is_plain = !name->empty() && std::all_of(name->begin(), name->end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
    });
    if (!is_plain) return invalid("--name is a word for a file's name, not \"" + *name + "\"");
    request.name = *name;
    return {};
}

Result<CommandLine> parse_convert(Words words) {
    Options options(std::move(words.options));
    ConvertCommand command;
    command.ignored = std::move(words.ignored);
    Request& request = command.request;
    read_trlx(options, words.positional, request);
    ROLL_TRY_VOID(read_places(options, std::move(words.positional), request));
    ROLL_TRY_VOID(read_name(options, request));
    if (const auto to = options.text("to")) {
        ROLL_TRY(request.to, parse_format(*to));
    }
    ROLL_TRY_VOID(read_dtype(options, request));
    ROLL_TRY_VOID(read_layout(options, request));
    int divisor = 0;
    ROLL_TRY_VOID(options.size("make-vocab-size-divisible-by", divisor));
    request.vocab_divisor = divisor;
    if (const auto size = options.text("max-shard-size")) {
        ROLL_TRY(request.shard_bytes, parse_bytes(*size));
    }
    if (const auto length = options.text("convert-model-max-length")) {
        ROLL_TRY(const std::int64_t positions, parse_bytes(*length));
        request.model_max_length = positions;
    }
    ROLL_TRY_VOID(options.size("threads", request.threads));
    request.config = options.text("config").value_or("");
    request.adapter_source = options.text("adapter").value_or("");
    request.overwrite = options.flag("overwrite");
    request.dry_run = options.flag("dry-run");
    request.verify = options.flag("verify");
    command.json = options.flag("json");
    ROLL_TRY_VOID(options.finish());
    return command;
}

// BASE ADAPTER DST is a conversion of BASE as a HuggingFace model, with the adapter over it.
Result<CommandLine> parse_merge(Words words) {
    if (words.positional.size() != 3)
        return invalid("merge takes a base, an adapter and a target directory");
    const std::string adapter = words.positional[1];
    words.positional.erase(words.positional.begin() + 1);
    ROLL_TRY(CommandLine line, parse_convert(std::move(words)));
    ConvertCommand& command = std::get<ConvertCommand>(line);
    command.request.adapters.emplace_back(adapter);
    command.request.to = command.request.to.value_or(Format::Hf);
    return line;
}

Result<std::string> one_directory(const Words& words, const char* command) {
    if (words.positional.size() != 1) return invalid(std::string(command) + " takes one directory");
    return words.positional[0];
}

Result<CommandLine> parse_other(const std::string& name, Words words) {
    Options options(std::move(words.options));
    const bool json = options.flag("json");
    const bool cast = options.flag("cast");
    const std::string config = options.text("config").value_or("");
    ROLL_TRY_VOID(options.finish());
    if (cast && name != "diff") return invalid("--cast belongs to diff");
    if (!config.empty() && name == "families") return invalid("--config belongs to a checkpoint");
    if (name == "inspect") {
        ROLL_TRY(std::string directory, one_directory(words, "inspect"));
        return InspectCommand{std::move(directory), config, json};
    }
    if (name == "verify") {
        ROLL_TRY(std::string directory, one_directory(words, "verify"));
        return VerifyCommand{std::move(directory), config, json};
    }
    if (name == "diff") {
        if (words.positional.size() != 2) return invalid("diff takes two directories");
        return DiffCommand{words.positional[0], words.positional[1], config, cast, json};
    }
    if (name == "families") {
        if (words.positional.empty()) return FamiliesCommand{"", json};
        if (words.positional.size() == 2 && words.positional[0] == "check")
            return FamiliesCommand{words.positional[1], json};
        return invalid("families takes nothing, or check FILE");
    }
    return invalid("there is no command " + name);
}

}  // namespace

Result<CommandLine> parse_command_line(std::span<const std::string> arguments) {
    if (arguments.empty()) return HelpCommand{};
    ROLL_TRY(Words words, Splitter(arguments).split());
    if (words.options.contains("help")) return HelpCommand{};
    if (words.options.contains("version")) return VersionCommand{};
    if (const auto launch = words.options.find("launch"); launch != words.options.end()) {
        if (arguments.size() != 2) return invalid("--launch takes one file and nothing else");
        return LaunchCommand{launch->second};
    }
    // ROLL's tool and trlX's have no commands: everything is an option.
    if (arguments.front().starts_with("--") &&
        (words.options.contains("checkpoint-path") || words.options.contains("model-path")))
        return parse_convert(std::move(words));
    if (words.positional.empty()) return invalid("a command is missing");
    const std::string name = words.positional.front();
    words.positional.erase(words.positional.begin());
    if (name == "merge") return parse_merge(std::move(words));
    return name == "convert" ? parse_convert(std::move(words))
                             : parse_other(name, std::move(words));
}

Result<std::optional<tensor::DType>> parse_dtype_name(const std::string& name) {
    if (name == "keep") return std::nullopt;
    for (const auto& [known, dtype] : kDtypes)
        if (name == known) return dtype;
    return invalid("the type is keep, fp32, bf16 or fp16, not " + name);
}

std::string dtype_word(std::optional<tensor::DType> dtype) {
    for (const auto& [known, value] : kDtypes)
        if (dtype == value) return known;
    return "keep";
}

Result<Format> parse_format(const std::string& name) {
    std::string known;
    for (const Format format : {Format::Hf, Format::Bin, Format::Mca, Format::TorchDist,
                                Format::Dcp, Format::Megatron, Format::Nemo, Format::Peft}) {
        if (name == name_of(format)) return format;
        known += (known.empty() ? "" : ", ") + std::string(name_of(format));
    }
    return invalid("the format is one of " + known + ", not " + name);
}

Result<std::int64_t> parse_bytes(const std::string& text) {
    std::int64_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string unit(parsed.ptr, text.data() + text.size());
    for (const auto& [name, factor] : {std::pair<const char*, std::int64_t>{"", 1},
                                       {"B", 1},
                                       {"KB", 1'000},
                                       {"MB", 1'000'000},
                                       {"GB", 1'000'000'000},
                                       {"TB", 1'000'000'000'000},
                                       {"KiB", std::int64_t{1} << 10U},
                                       {"MiB", std::int64_t{1} << 20U},
                                       {"GiB", std::int64_t{1} << 30U},
                                       {"TiB", std::int64_t{1} << 40U}}) {
        if (unit != name || parsed.ec != std::errc{} || number <= 0) continue;
        std::int64_t bytes = 0;
        if (!__builtin_mul_overflow(number, factor, &bytes)) return bytes;
    }
    return invalid("\"" + text + "\" is no size; write 5GB, 512MiB or a number");
}

std::string help_text() {
    return R"(roll-convert: checkpoints from one format, layout or type to another. No Python, no GPU.

  roll-convert convert SRC DST [options]    HuggingFace -> MCA, anything else -> HuggingFace
      --to hf|bin|mca|torch_dist|dcp|megatron|nemo      bin: pytorch_model.bin
      --config MODEL                        whose config a source has that has none itself: a
                                            directory, or a family's name (Megatron's arguments)
      --dtype keep|fp32|bf16|fp16           cast every floating weight (--bf16, --fp16)
      --tp N --pp N --vpp N --ep N --etp N  the layout of an MCA or Megatron target
      --layout STR                          its pipeline layout, e.g. "E,t*3|t*4,L"
      --decoder-first-pipeline-num-layers N, --decoder-last-pipeline-num-layers N
      --name WORD                           in a NeMo target's configs
      --make-vocab-size-divisible-by N      rows of zeros in an MCA, Megatron, NeMo target
      --max-shard-size 5GB                  of a HuggingFace target's files
      --threads N                           at most 4 of the machine's, unless given
      --overwrite --dry-run --verify --json
  roll-convert convert BASE DST --adapter DIR    LoRA adapters of BASE: PEFT -> MCA, MCA -> PEFT
  roll-convert merge BASE ADAPTER DST       a LoRA adapter into its base; the same options
  roll-convert inspect DIR [--json]         what a checkpoint holds
  roll-convert verify DIR [--json]          every tensor there, replicas equal, bytes as written
  roll-convert diff A B [--cast] [--json]   two checkpoints of any formats, tensor by tensor
  roll-convert families [check FILE]        model families known, or what is wrong with a file
  roll-convert --launch FILE                as a job, under roll-worker

With --submit rollctl queues a conversion or merge as a job instead: --wait, --follow,
--after ok:ID, --hold, --name and --time as with rollctl submit.

The arguments of ROLL's tools/convert.py (--checkpoint_path, --output_path, ...) and of trlX's
converter (--model_path, --output_folder, --total_tp, --name) work as well.
)";
}

}  // namespace roll::convert
