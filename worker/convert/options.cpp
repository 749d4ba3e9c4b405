#include "worker/convert/options.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "common/number.hpp"
#include "worker/convert/words.hpp"
#include "worker/formats/nemo.hpp"

namespace roll::convert {
namespace {

constexpr std::array<std::pair<const char*, tensor::DType>, 4> kDtypes{
    {{"fp32", tensor::DType::F32},
     {"bf16", tensor::DType::BF16},
     {"fp16", tensor::DType::F16},
     {"fp8", tensor::DType::F8E4M3}}};

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

constexpr const char* kNewerMtpName = "mtp_model_layer";
constexpr const char* kOlderMtpName = "transformer_layer";

}  // namespace

Result<bool> parse_mtp_layer_name(const std::string& name) {
    if (name == kNewerMtpName || name == kOlderMtpName) return name == kNewerMtpName;
    return invalid(std::string("--mtp-layer-name is ") + kOlderMtpName + " or " + kNewerMtpName +
                   ", not " + name);
}

std::string mtp_layer_name(bool newer) { return newer ? kNewerMtpName : kOlderMtpName; }

namespace {

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
            return invalid("--transformer-impl must be local or transformer_engine, not " + *impl);
        request.local_names = impl == "local";
    }
    if (const auto version = options.text("checkpoint-version")) {
        if (version->size() != 1 || (*version)[0] < '0' || (*version)[0] > '3')
            return invalid("--checkpoint-version must be 0, 1, 2 or 3, not " + *version);
        request.megatron_version = (*version)[0] - '0';
    }
    if (const auto name = options.text("mtp-layer-name")) {
        ROLL_TRY(request.newer_mtp_names, parse_mtp_layer_name(*name));
    }
    // Derives the number of virtual stages from the layout string, as ROLL does.
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
    if (positional.size() != 2) return invalid("convert needs a source and a target directory");
    request.source = positional[0];
    request.target = positional[1];
    return {};
}

// Reads the options of trlX's converter, which always loads in bf16.
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
    if (!is_plain)
        return invalid("--name accepts only letters, digits, `.`, `_` and `-`, not \"" + *name +
                       "\"");
    request.name = *name;
    return {};
}

// Reads the options of a part. "2/8" is the third of eight parts.
Result<void> read_part(Options& options, Request& request) {
    const auto text = options.text("part");
    request.part.run = options.text("run").value_or("");
    if (!text && request.part.run.empty()) return {};
    if (!text) return invalid("--run needs --part");
    const std::size_t slash = std::min(text->find('/'), text->size() - 1);
    const auto index = parse_number<int>(text->substr(0, slash));
    const auto count = parse_number<int>(text->substr(slash + 1));
    if (!index || !count || *index < 0 || *index >= *count || *count > 4096)
        return invalid("--part must be I/N with I from 0 to N-1, not " + *text);
    if (request.part.run.empty())
        return invalid(
            "--part needs --run WORD, unique per run, such as $SLURM_JOB_ID.$SLURM_STEP_ID");
    request.part.index = *index;
    request.part.count = *count;
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
    } else if (formats::is_nemo_archive(request.target)) {
        request.to = Format::Nemo;
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
    ROLL_TRY_VOID(read_part(options, request));
    request.config = options.text("config").value_or("");
    ROLL_TRY(request.strictness,
             parse_strictness(options.text("strictness").value_or("raise_all")));
    request.state = options.text("state").value_or("");
    request.adapter_source = options.text("adapter").value_or("");
    request.reuse = options.text("reuse").value_or("");
    request.overwrite = options.flag("overwrite");
    request.dry_run = options.flag("dry-run");
    request.verify = options.flag("verify");
    command.json = options.flag("json");
    ROLL_TRY_VOID(options.finish());
    return command;
}

// Parses BASE ADAPTER DST: converts BASE into a HuggingFace model with ADAPTER merged.
Result<CommandLine> parse_merge(Words words) {
    if (words.positional.size() != 3)
        return invalid("merge needs a base, an adapter and a target directory");
    const std::string adapter = words.positional[1];
    words.positional.erase(words.positional.begin() + 1);
    const bool unmerge = words.options.erase("unmerge") > 0;
    ROLL_TRY(CommandLine line, parse_convert(std::move(words)));
    ConvertCommand& command = std::get<ConvertCommand>(line);
    command.request.adapters.emplace_back(adapter);
    command.request.unmerge = unmerge;
    command.request.to = command.request.to.value_or(Format::Hf);
    return line;
}

// Parses SRC DST, then one or more OLD=NEW or NAME.
Result<CommandLine> parse_edit(const std::string& name, Words words) {
    EditCommand command;
    EditRequest& request = command.request;
    Options options(std::move(words.options));
    request.overwrite = options.flag("overwrite");
    command.json = options.flag("json");
    ROLL_TRY_VOID(options.finish());
    const bool renames = name == "rename";
    if (words.positional.size() < 3)
        return invalid(name + " needs a source, a target and " +
                       (renames ? "OLD=NEW" : "a tensor's NAME") + " once or more");
    request.source = words.positional[0];
    request.target = words.positional[1];
    for (std::size_t i = 2; i < words.positional.size(); ++i) {
        ROLL_TRY(NameRule rule, renames ? parse_renaming(words.positional[i])
                                        : Result<NameRule>(NameRule{words.positional[i], {}}));
        request.rules.push_back(std::move(rule));
    }
    return command;
}

Result<std::string> one_directory(const Words& words, const char* command) {
    if (words.positional.size() != 1) return invalid(std::string(command) + " takes one directory");
    return words.positional[0];
}

Result<CommandLine> parse_other(const std::string& name, Words words) {
    Options options(std::move(words.options));
    const bool json = options.flag("json");
    const bool cast = options.flag("cast");
    const std::string tensor = options.text("tensor").value_or("");
    OpenOptions open;
    open.config = options.text("config").value_or("");
    open.state = options.text("state").value_or("");
    ROLL_TRY(open.strictness, parse_strictness(options.text("strictness").value_or("raise_all")));
    ROLL_TRY_VOID(options.finish());
    if (!tensor.empty() && name != "inspect") return invalid("--tensor is only for inspect");
    if (cast && name != "diff") return invalid("--cast is only for diff");
    if (!open.config.empty() && name == "families")
        return invalid("--config is not an option of families");
    if (name == "inspect") {
        ROLL_TRY(std::string directory, one_directory(words, "inspect"));
        return InspectCommand{std::move(directory), open, tensor, json};
    }
    if (name == "verify") {
        ROLL_TRY(std::string directory, one_directory(words, "verify"));
        return VerifyCommand{std::move(directory), open, json};
    }
    if (name == "diff") {
        if (words.positional.size() != 2) return invalid("diff needs two directories");
        return DiffCommand{words.positional[0], words.positional[1], open, cast, json};
    }
    if (name == "families") {
        if (words.positional.empty()) return FamiliesCommand{"", json};
        if (words.positional.size() == 2 && words.positional[0] == "check")
            return FamiliesCommand{words.positional[1], json};
        return invalid("families accepts no arguments, or `check FILE`");
    }
    return invalid("unknown command " + name);
}

}  // namespace

Result<CommandLine> parse_command_line(std::span<const std::string> arguments) {
    if (arguments.empty()) return HelpCommand{};
    ROLL_TRY(Words words, split_words(arguments));
    if (words.options.contains("help")) return HelpCommand{};
    if (words.options.contains("version")) return VersionCommand{};
    if (const auto launch = words.options.find("launch"); launch != words.options.end()) {
        if (arguments.size() != 2)
            return invalid("--launch accepts one file and no other arguments");
        return LaunchCommand{launch->second};
    }
    // The tools of ROLL and trlX have no commands, only options.
    if (arguments.front().starts_with("--") &&
        (words.options.contains("checkpoint-path") || words.options.contains("model-path")))
        return parse_convert(std::move(words));
    if (words.positional.empty()) return invalid("no command is given");
    const std::string name = words.positional.front();
    words.positional.erase(words.positional.begin());
    if (name == "merge") return parse_merge(std::move(words));
    if (name == "rename" || name == "remove") return parse_edit(name, std::move(words));
    return name == "convert" ? parse_convert(std::move(words))
                             : parse_other(name, std::move(words));
}

Result<std::optional<tensor::DType>> parse_dtype_name(const std::string& name) {
    if (name == "keep") return std::nullopt;
    for (const auto& [known, dtype] : kDtypes)
        if (name == known) return dtype;
    return invalid("the type must be keep, fp32, bf16, fp16 or fp8, not " + name);
}

std::string dtype_word(std::optional<tensor::DType> dtype) {
    for (const auto& [known, value] : kDtypes)
        if (dtype == value) return known;
    return "keep";
}

const char* name_of(Format format) {
    switch (format) {
        case Format::Hf: return "hf";
        case Format::Bin: return "bin";
        case Format::Mca: return "mca";
        case Format::TorchDist: return "torch_dist";
        case Format::Dcp: return "dcp";
        case Format::FsdpDtensor: return "fsdp_dtensor";
        case Format::Megatron: return "megatron";
        case Format::Nemo: return "nemo";
        case Format::Peft: return "peft";
        case Format::DeepSpeed: return "deepspeed";
    }
    return "";
}

Result<Format> parse_format(const std::string& name) {
    std::string known;
    for (const Format format :
         {Format::Hf, Format::Bin, Format::Mca, Format::TorchDist, Format::Dcp, Format::FsdpDtensor,
          Format::Megatron, Format::Nemo, Format::Peft}) {
        if (name == name_of(format)) return format;
        known += (known.empty() ? "" : ", ") + std::string(name_of(format));
    }
    return invalid("the format must be one of " + known + ", not " + name);
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
    return invalid("\"" + text + "\" is not a size; use 5GB, 512MiB or a number of bytes");
}

Result<NameRule> parse_renaming(const std::string& text) {
    const std::size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size())
        return fail(ErrorCode::InvalidArgument, "rename needs OLD=NEW, not \"" + text + "\"");
    NameRule rule{text.substr(0, at), text.substr(at + 1)};
    if (std::count(rule.name.begin(), rule.name.end(), '*') !=
        std::count(rule.to->begin(), rule.to->end(), '*'))
        return fail(ErrorCode::InvalidArgument,
                    "\"" + text + "\" must have as many * after the = as before it");
    return rule;
}

}  // namespace roll::convert
