#include "worker/chat/model_template.hpp"

#include "common/files.hpp"
#include "common/hash.hpp"
#include "common/json_file.hpp"

namespace roll::chat {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                   "pad_token", "cls_token", "mask_token"};

// Returns the text of a token. The config gives a token as "</s>" or as {"content": "</s>", ...}.
std::optional<std::string> token_text(const Json& token) {
    if (token.is_string()) return token.get<std::string>();
    if (token.is_object() && token.contains("content") && token["content"].is_string())
        return token["content"].get<std::string>();
    return std::nullopt;
}

void add_tokens(const Json& config, const Json& map, ModelTemplate& model) {
    for (const char* const name : kTokens) {
        for (const Json* const json : {&config, &map}) {
            const auto found = json->find(name);
            const auto text = found == json->end() ? std::nullopt : token_text(*found);
            if (!text) continue;
            model.tokens.emplace_back(name, *text);
            break;
        }
    }
    for (const char* const key : {"extra_special_tokens", "model_specific_special_tokens"}) {
        const auto extra = config.find(key);
        if (extra == config.end() || !extra->is_object()) continue;
        for (const auto& [name, token] : extra->items())
            if (const auto text = token_text(token)) model.tokens.emplace_back(name, *text);
    }
}

struct Source {
    std::string usual, with_tools, path;
};

// Reads the templates in tokenizer_config.json. The file has one text, or a list of named texts.
Result<Source> source_in(const Json& config, const fs::path& path) {
    Source source{"", "", path.string() + ", chat_template"};
    const auto found = config.find("chat_template");
    if (found == config.end() || found->is_null()) return source;
    if (found->is_string()) {
        source.usual = found->get<std::string>();
        return source;
    }
    for (const Json& one : found->is_array() ? *found : Json::array()) {
        if (!one.is_object() || !one.contains("name") || !one.contains("template") ||
            !one["template"].is_string())
            continue;
        if (one["name"] == "default") source.usual = one["template"].get<std::string>();
        if (one["name"] == "tool_use") source.with_tools = one["template"].get<std::string>();
    }
    if (source.usual.empty())
        return fail(ErrorCode::InvalidArgument,
                    source.path + " has no template with the name \"default\", which Roll uses");
    return source;
}

// Returns what to do if the template has failed because the content of a message is a list; an
// empty text if no content is a list.
std::string advice_on_lists(std::span<const Value> messages) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const Value* const content = messages[i].dict->find("content");
        if (content != nullptr && content->is(Kind::List))
            return "; the content of message " + std::to_string(i + 1) +
                   " is a list: if the template reads only strings, write the content as a string";
    }
    return "";
}

Result<Template> parse(const std::string& text, const std::string& path) {
    auto parsed = Template::parse(text);
    if (!parsed) return fail(parsed.error().code, path + ", " + parsed.error().message);
    return parsed;
}

}  // namespace

Result<std::optional<ModelTemplate>> load_template(const fs::path& directory) {
    const fs::path config_path = directory / "tokenizer_config.json";
    const fs::path jinja = directory / "chat_template.jinja";
    ROLL_TRY(const Json config, read_optional_json_object(config_path));
    ROLL_TRY(const Json map, read_optional_json_object(directory / "special_tokens_map.json"));
    Source source;
    std::error_code error;
    if (fs::exists(jinja, error)) {
        ROLL_TRY(source.usual, read_file(jinja));
        source.path = jinja.string();
    } else {
        ROLL_TRY(source, source_in(config, config_path));
    }
    if (source.usual.empty()) return std::optional<ModelTemplate>();
    ROLL_TRY(Template usual, parse(source.usual, source.path));
    ModelTemplate model{.usual = std::move(usual), .with_tools = {}, .path = source.path};
    if (!source.with_tools.empty()) {
        ROLL_TRY(model.with_tools, parse(source.with_tools, source.path + " tool_use"));
    }
    add_tokens(config, map, model);
    model.identity = to_hex(hash64(Json{source.usual, source.with_tools, model.tokens}.dump()));
    return std::optional(std::move(model));
}

const Template& template_for(const ModelTemplate& model, const Conversation& conversation) {
    const bool tools = model.with_tools && !conversation.tools.is(Kind::None);
    return tools ? *model.with_tools : model.usual;
}

Result<Rendered> render(const ModelTemplate& model, const Conversation& conversation,
                        std::span<const Value> messages, bool add_generation_prompt, Arena& arena,
                        const RenderOptions& options, std::vector<Stop>* stops) {
    std::vector<Entry> variables;
    for (const auto& [name, text] : model.tokens) variables.push_back({name, string(text)});
    if (conversation.settings.is(Kind::Dict))
        for (const Entry& entry : conversation.settings.dict->entries) variables.push_back(entry);
    variables.push_back({"messages", list(messages)});
    variables.push_back({"tools", conversation.tools});
    variables.push_back({"documents", none()});
    variables.push_back({"add_generation_prompt", boolean(add_generation_prompt)});
    auto rendered = template_for(model, conversation)
                        .render(variables, arena, options.now, options.limits, stops);
    if (!rendered)
        return fail(rendered.error().code,
                    model.path + ", " + rendered.error().message + advice_on_lists(messages));
    return rendered;
}

}  // namespace roll::chat
