#include "worker/convert/words.hpp"

#include <algorithm>
#include <array>

#include "common/number.hpp"

namespace roll::convert {
namespace {

enum class Takes { Nothing, Flag, Value };  // a Flag can have a value: true or false

struct Option {
    const char* name;
    Takes takes;
    const char* meaning;  // alias of this option; nullptr: no alias; "": no effect
};

// Roll's options, ROLL's names for them, and ROLL's options that affect only how a model runs.
constexpr std::array<Option, 84> kOptions{{
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
    {"checkpoint-version", Takes::Value, nullptr},
    {"mtp-layer-name", Takes::Value, nullptr},
    {"threads", Takes::Value, nullptr},
    {"part", Takes::Value, nullptr},
    {"run", Takes::Value, nullptr},
    {"overwrite", Takes::Nothing, nullptr},
    {"dry-run", Takes::Nothing, nullptr},
    {"verify", Takes::Nothing, nullptr},
    {"unmerge", Takes::Nothing, nullptr},
    {"strictness", Takes::Value, nullptr},
    {"state", Takes::Value, nullptr},
    {"reuse", Takes::Value, nullptr},
    {"tensor", Takes::Value, nullptr},
    {"dist-ckpt-strictness", Takes::Value, "strictness"},
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
        if (option == kOptions.end()) return invalid("unknown option --" + name);
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
                    return invalid(std::string("--") + option.name +
                                   " must be true or false, not " + *given);
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

}  // namespace

tl::unexpected<Error> invalid(std::string what) {
    return fail(ErrorCode::InvalidArgument, std::move(what), "roll-convert --help");
}

Result<Words> split_words(std::span<const std::string> arguments) {
    return Splitter(arguments).split();
}

std::optional<std::string> Options::text(const char* name) {
    const auto found = values_.find(name);
    if (found == values_.end()) return std::nullopt;
    std::string value = std::move(found->second);
    values_.erase(found);
    return value;
}

Result<void> Options::size(const char* name, int& into) {
    const auto given = text(name);
    if (!given || *given == "None") return {};
    const auto value = parse_number<int>(*given);
    if (!value || *value < 1 || *value > 4096)
        return invalid(std::string("--") + name + " is 1 to 4096, not " + *given);
    into = *value;
    return {};
}

Result<void> Options::finish() const {
    if (values_.empty()) return {};
    return invalid("--" + values_.begin()->first + " does not belong to this command");
}

}  // namespace roll::convert
