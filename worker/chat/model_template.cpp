#include "worker/chat/model_template.hpp"

#include <algorithm>

#include "common/files.hpp"
#include "common/hash.hpp"
#include "common/json.hpp"

namespace roll::chat {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                   "pad_token", "cls_token", "mask_token"};

Result<Json> read_object(const fs::path& path) {
    std::error_code error;
    if (!fs::exists(path, error)) return Json::object();
    ROLL_TRY(const std::string text, read_file(path));
    auto json = parse_json(text);
    if (!json || !json->is_object())
        return fail(ErrorCode::Corrupt, path.string() + " is not a JSON object");
    return *std::move(json);
}

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
                    source.path + " has no template with the name \"default\"");
    return source;
}

Result<Template> parse(const std::string& text, const std::string& path) {
    auto parsed = Template::parse(text);
    if (!parsed) return fail(parsed.error().code, path + ", " + parsed.error().message);
    return parsed;
}

struct Turn {
    std::size_t message = 0;
    Span span;
};

std::size_t common_prefix(std::string_view a, std::string_view b) {
    return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

bool is_assistant(const Value& message) {
    const Value* const role = message.dict->find("role");
    return role != nullptr && role->is(Kind::String) && role->text() == "assistant";
}

// Finds the assistant's turns in a rendered text. Used for templates without the tag `generation`.
class TurnFinder {
  public:
    TurnFinder(const ModelTemplate& model, const Conversation& conversation, Arena& arena,
               const RenderOptions& options, const std::string& whole)
        : model_(model),
          conversation_(conversation),
          arena_(arena),
          options_(options),
          whole_(whole),
          messages_(conversation.messages.list()) {}

    // Returns the span of the text that the message at `index` adds.
    Result<Span> find(std::size_t index) const {
        ROLL_TRY(const std::size_t begin, index == 0 ? first_begin() : begin_of(index));
        auto with = part(messages_.first(index + 1), /*prompt=*/false);
        if (!with) return refused(index, with.error().message);
        const bool ends_otherwise = !whole_.starts_with(*with);
        if (ends_otherwise) remove_end(*with);
        if (!whole_.starts_with(*with) || with->size() <= begin) return by_mark(index, begin);
        const std::size_t end = with->size();
        return Span{begin, ends_otherwise ? before_next(index, end) : end};
    }

  private:
    Result<std::string> part(std::span<const Value> messages, bool prompt) const {
        if (messages.empty()) return std::string();
        Arena scratch(options_.limits.memory);  // freed after each part, because parts are long
        ROLL_TRY(Rendered rendered,
                 render(model_, conversation_, messages, prompt, scratch, options_));
        return std::move(rendered.text);
    }

    // Removes the EOS token from the end of a text. Some templates, such as Phi-3's, write it once,
    // after the last message.
    void remove_end(std::string& text) const {
        const auto eos = std::ranges::find(model_.tokens, "eos_token",
                                           &std::pair<std::string, std::string>::first);
        if (eos != model_.tokens.end() && text.ends_with(eos->second))
            text.resize(text.size() - eos->second.size());
    }

    // Returns the position at which the next message begins, at or after `end`. Some templates,
    // such as Olmo 3's, write the EOS token after the last turn and another mark after each earlier
    // turn; this mark belongs to the turn. Returns `end` if the next message is not found.
    std::size_t before_next(std::size_t index, std::size_t end) const {
        const std::size_t next = whole_.find(text_of_next(index), end);
        return next == std::string::npos ? end : next;
    }

    // Returns the position at which the turn of a message begins. This is the end of the prompt
    // that the template writes for the assistant. The prompt of some templates (DeepSeek's) also
    // opens a thought, which the text of the conversation does not have. The turn then begins where
    // the text of the conversation first differs from the prompt.
    Result<std::size_t> begin_of(std::size_t index) const {
        const std::span<const Value> earlier = messages_.first(index);
        auto prompt = part(earlier, /*prompt=*/true);
        if (!prompt) return refused(index, prompt.error().message);
        if (whole_.starts_with(*prompt)) return prompt->size();
        ROLL_TRY(std::string before, part(earlier, /*prompt=*/false));
        if (!whole_.starts_with(before)) remove_end(before);
        ROLL_TRY(const std::string other, part(marked(index, kMarks[0]), /*prompt=*/false));
        const std::size_t shared =
            std::min(common_prefix(*prompt, whole_), common_prefix(*prompt, other));
        if (whole_.starts_with(before) && shared > before.size()) return shared;
        return refused(index,
                       "the template writes the text before this message differently if later "
                       "messages follow");
    }

    // Returns the position at which the turn of the first message begins. No message precedes it,
    // so the prompt cannot be rendered after earlier messages as in begin_of(). Instead, renders
    // the prompt after a user's message and looks for this prompt in the text of the conversation.
    Result<std::size_t> first_begin() const {
        const Value user = users_message();
        auto prompt = part({&user, 1}, /*prompt=*/true);
        auto before = part({&user, 1}, /*prompt=*/false);
        if (!prompt || !before) return refused(0, (prompt ? before : prompt).error().message);
        if (!prompt->starts_with(*before)) remove_end(*before);
        if (!prompt->starts_with(*before))
            return refused(0, "the text does not begin with the prompt that the template writes");
        const std::string header = prompt->substr(before->size());
        if (const std::size_t at = whole_.find(header); at != std::string::npos)
            return at + header.size();
        ROLL_TRY(const std::string other, part(marked(0, kMarks[0]), /*prompt=*/false));
        const std::size_t content = common_prefix(whole_, other);
        for (std::size_t size = header.size(); size > 0; --size)
            if (std::string_view(whole_).substr(0, content).ends_with(header.substr(0, size)))
                return content;
        return refused(
            0, "the text of this turn does not begin with the prompt that the template writes");
    }

    Value users_message() const {
        return dict({{"role", string("user")}, {"content", string("a")}}, arena_);
    }

    // Returns a copy of the messages in which `mark` is the content of the message at `index`.
    std::vector<Value> marked(std::size_t index, std::string_view mark) const {
        std::vector<Value> messages(messages_.begin(), messages_.end());
        std::vector<Entry> entries(messages_[index].dict->entries.begin(),
                                   messages_[index].dict->entries.end());
        for (Entry& entry : entries)
            if (entry.key == "content") entry.value = string(mark);
        messages[index] = dict(std::move(entries), arena_);
        return messages;
    }

    // Finds the span of a turn that is rendered differently if its message is the last one. Let E
    // be the text after the content if the message is the last one. If the content is also followed
    // by E in the whole conversation, the turn ends after E. Otherwise, the turn ends before the
    // text of the next message.
    Result<Span> by_mark(std::size_t index, std::size_t begin) const {
        ROLL_TRY(const std::string tail, tail_of(index, begin));
        const std::vector<Value> messages = marked(index, kMarks[0]);
        ROLL_TRY(const std::string alone,
                 part(std::span(messages).first(index + 1), /*prompt=*/false));
        const std::string_view end = after_mark(alone);
        std::size_t size = end.size();
        if (end.empty() || !tail.starts_with(end)) size = tail.find(text_of_next(index));
        if (!tail.empty() && size > 0 && size != std::string::npos)
            return Span{begin, whole_.size() - tail.size() + size};
        return refused(
            index,
            "the template writes the text of this turn differently if later messages follow");
    }

    static std::string_view after_mark(const std::string& text) {
        const std::size_t at = text.rfind(kMarks[0]);
        return at == std::string::npos ? std::string_view()
                                       : std::string_view(text).substr(at + kMarks[0].size());
    }

    // Returns the text after the content of a message in the rendered conversation. To find this
    // text, renders the conversation with a marker instead of the content. Returns an empty text if
    // the template does not write the content exactly once, or if the text after it depends on the
    // content.
    Result<std::string> tail_of(std::size_t index, std::size_t begin) const {
        std::string texts[2];
        for (int i = 0; i < 2; ++i) {
            ROLL_TRY(texts[i], part(marked(index, kMarks[i]), /*prompt=*/false));
        }
        const std::string_view tail = after_mark(texts[0]);
        const std::size_t shared = common_prefix(texts[0], texts[1]);
        const bool once = !tail.empty() && texts[0].size() == texts[1].size() &&
                          shared + kMarks[0].size() + tail.size() == texts[0].size();
        const bool same = once && begin <= shared && whole_.ends_with(tail) &&
                          whole_.size() >= shared + tail.size();
        return same ? std::string(tail) : std::string();
    }

    // Returns the text that the template writes for the next message if the message at `index` is
    // left out. A user's message stands for the first message, because the text without any message
    // may lack what begins a conversation. If there is no such text, returns a NUL character, which
    // is in no conversation.
    std::string text_of_next(std::size_t index) const {
        const std::string none(1, '\0');
        if (index + 1 == messages_.size()) return none;
        std::vector<Value> without(messages_.begin(),
                                   messages_.begin() + static_cast<std::ptrdiff_t>(index));
        if (index == 0) without.push_back(users_message());
        const auto before = part(without, /*prompt=*/false);
        without.push_back(messages_[index + 1]);
        const auto both = part(without, /*prompt=*/false);
        const bool adds =
            before && both && both->starts_with(*before) && both->size() > before->size();
        return adds ? both->substr(before->size()) : none;
    }

    tl::unexpected<Error> refused(std::size_t index, const std::string& why) const {
        return fail(ErrorCode::InvalidArgument,
                    "cannot find where the turn of message " + std::to_string(index + 1) +
                        " begins and ends in the text of " + model_.path + ": " + why +
                        "; use a template with {% generation %}");
    }

    static constexpr std::string_view kMarks[] = {"Rq7xVz", "mK2wQj"};

    const ModelTemplate& model_;
    const Conversation& conversation_;
    Arena& arena_;
    const RenderOptions& options_;
    const std::string& whole_;
    std::span<const Value> messages_;
};

// Returns the spans that the loss covers. Used for templates without the tag `generation`.
Result<std::vector<Span>> turns_of(const ModelTemplate& model, const Conversation& conversation,
                                   Arena& arena, const RenderOptions& options,
                                   const std::string& whole) {
    const TurnFinder finder(model, conversation, arena, options, whole);
    std::vector<Span> spans;
    const std::span<const Value> messages = conversation.messages.list();
    for (std::size_t i = messages.size(); i-- > 0;) {
        if (!is_assistant(messages[i])) continue;
        // Skip all but the first of consecutive messages of the assistant. The first one reports
        // the error below.
        if (i > 0 && is_assistant(messages[i - 1])) continue;
        std::size_t last = i;
        while (last + 1 < messages.size() && is_assistant(messages[last + 1])) ++last;
        if (last != i)
            return fail(ErrorCode::InvalidArgument,
                        "messages " + std::to_string(i + 1) + " and " + std::to_string(i + 2) +
                            " both have the role assistant, and the template " + model.path +
                            " has no {% generation %} that separates them");
        ROLL_TRY(const Span span, finder.find(i));
        if (!spans.empty() && span.end > spans.front().begin)
            return fail(ErrorCode::InvalidArgument,
                        "the turn of message " + std::to_string(i + 1) +
                            " overlaps the next turn in the text that the template " + model.path +
                            " writes; mark the turns in the template with {% generation %}");
        spans.insert(spans.begin(), span);
        if (options.train_on == TrainOn::Last) break;
    }
    return spans;
}

}  // namespace

Result<std::optional<ModelTemplate>> load_template(const fs::path& directory) {
    const fs::path config_path = directory / "tokenizer_config.json";
    const fs::path jinja = directory / "chat_template.jinja";
    ROLL_TRY(const Json config, read_object(config_path));
    ROLL_TRY(const Json map, read_object(directory / "special_tokens_map.json"));
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

Result<Rendered> render(const ModelTemplate& model, const Conversation& conversation,
                        std::span<const Value> messages, bool add_generation_prompt, Arena& arena,
                        const RenderOptions& options) {
    std::vector<Entry> variables;
    for (const auto& [name, text] : model.tokens) variables.push_back({name, string(text)});
    if (conversation.settings.is(Kind::Dict))
        for (const Entry& entry : conversation.settings.dict->entries) variables.push_back(entry);
    variables.push_back({"messages", list(messages)});
    variables.push_back({"tools", conversation.tools});
    variables.push_back({"documents", none()});
    variables.push_back({"add_generation_prompt", boolean(add_generation_prompt)});
    const bool tools = model.with_tools && !conversation.tools.is(Kind::None);
    const Template& chosen = tools ? *model.with_tools : model.usual;
    auto rendered = chosen.render(variables, arena, options.now, options.limits);
    if (!rendered) return fail(rendered.error().code, model.path + ", " + rendered.error().message);
    return rendered;
}

Result<ChatText> chat_text(const ModelTemplate& model, const Conversation& conversation,
                           Arena& arena, const RenderOptions& options) {
    const std::span<const Value> messages = conversation.messages.list();
    ROLL_TRY(Rendered rendered, render(model, conversation, messages, false, arena, options));
    ChatText made{std::move(rendered.text), {}};
    if (options.train_on == TrainOn::All) {
        made.learned = {{0, made.text.size()}};
        return made;
    }
    const bool tools = model.with_tools && !conversation.tools.is(Kind::None);
    if ((tools ? *model.with_tools : model.usual).has_generation()) {
        made.learned = std::move(rendered.spans);
        if (options.train_on == TrainOn::Last && made.learned.size() > 1)
            made.learned = {made.learned.back()};
    } else {
        ROLL_TRY(made.learned, turns_of(model, conversation, arena, options, made.text));
    }
    std::erase_if(made.learned, [](const Span& span) { return span.begin == span.end; });
    if (made.learned.empty())
        return fail(ErrorCode::InvalidArgument,
                    "has no text of the assistant when " + model.path + " renders it");
    return made;
}

}  // namespace roll::chat
