#include "worker/chat/chat_text.hpp"

#include <algorithm>
#include <optional>

#include "worker/chat/content_lists.hpp"

namespace roll::chat {
namespace {

std::size_t common_prefix(std::string_view a, std::string_view b) {
    return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

bool has_role(const Value& message, std::string_view name) {
    const Value* const role = message.dict->find("role");
    return role != nullptr && role->is(Kind::String) && role->text() == name;
}

bool is_assistant(const Value& message) { return has_role(message, "assistant"); }

// Finds the assistant's turns in a rendered text. Used for templates without the tag `generation`.
class TurnFinder {
  public:
    // `stops` has one stop of `whole` for each message, or is empty.
    TurnFinder(const ModelTemplate& model, const Conversation& conversation, Arena& arena,
               const RenderOptions& options, const std::string& whole,
               const std::vector<Stop>& stops)
        : model_(model),
          conversation_(conversation),
          arena_(arena),
          options_(options),
          whole_(whole),
          stops_(stops),
          messages_(conversation.messages.list()) {}

    // Returns the span of the text that the message at `index` adds.
    Result<Span> find(std::size_t index) {
        ROLL_TRY(const std::size_t begin, index == 0 ? first_begin() : begin_of(index));
        ROLL_TRY(const Span span, span_from(index, begin));
        // Some templates write a tool's answer inside the turn that calls the tool
        if (index + 1 < messages_.size() && has_role(messages_[index + 1], "tool")) {
            ROLL_TRY(const std::size_t answer, content_of(index + 1));
            if (answer < span.end)
                return refused(index, "the template writes message " + std::to_string(index + 2) +
                                          " inside this turn");
        }
        return span;
    }

    // Returns the span of the messages from `index` on. The span begins after the prompt that the
    // template writes for an answer.
    Result<Span> find_rest(std::size_t index) {
        ROLL_TRY(const std::size_t begin, index == 0 ? first_begin() : begin_of(index));
        return Span{begin, whole_.size()};
    }

  private:
    Result<Span> span_from(std::size_t index, std::size_t begin) {
        const bool last = index + 1 == messages_.size();
        if (last && whole_.size() > begin) return Span{begin, whole_.size()};
        auto with = part(messages_.first(index + 1), /*prompt=*/false);
        if (!with) return refused(index, with.error().message);
        if (!last && *with == whole_) remove_end_of_whole(index, *with);
        if (whole_.starts_with(*with) && with->size() > begin) {
            if (with->size() == whole_.size()) return Span{begin, with->size()};
            return after_separator(index, {begin, with->size()});
        }
        remove_end(*with);
        if (!whole_.starts_with(*with) || with->size() <= begin) return by_mark(index, begin);
        ROLL_TRY(const std::size_t end, before_next(index, with->size(), begin));
        return Span{begin, end};
    }

    Result<std::string> part(std::span<const Value> messages, bool prompt) const {
        if (messages.empty()) return std::string();
        if (const Stop* const stop = stop_after(messages))
            return whole_.substr(0, stop->size) + (prompt ? stop->prompt : stop->end);
        Arena scratch(options_.limits.memory);  // freed after each part, because parts are long
        ROLL_TRY(Rendered rendered,
                 render(model_, conversation_, messages, prompt, scratch, options_));
        return std::move(rendered.text);
    }

    // Returns the stop after the last of `messages`; null if `messages` are not the first messages
    // of the conversation, or if there are no stops.
    const Stop* stop_after(std::span<const Value> messages) const {
        const bool first = !stops_.empty() && messages.data() == messages_.data();
        return first ? &stops_[messages.size() - 1] : nullptr;
    }

    // Removes the EOS token from the end of a text. Some templates, such as Phi-3's, write the
    // token once, after the last message.
    void remove_end(std::string& text) const {
        const auto eos = std::ranges::find(model_.tokens, "eos_token",
                                           &std::pair<std::string, std::string>::first);
        if (eos != model_.tokens.end() && text.ends_with(eos->second))
            text.resize(text.size() - eos->second.size());
    }

    // Removes the EOS token from the end of a text that ends with the turn at `index`, if the
    // template writes this token only once, after the last message. The token may follow this turn
    // because the template leaves out all later messages, such as a tool's answer. Keeps the token
    // if the template also writes it before a further message of the user, because the token is
    // then the mark that ends the turn.
    void remove_end_of_whole(std::size_t index, std::string& text) const {
        const auto shown = messages_.first(index + 1);
        std::vector<Value> more(shown.begin(), shown.end());
        more.push_back(message("user", "a"));
        const auto longer = part(more, /*prompt=*/false);
        if (!longer || !longer->starts_with(text)) remove_end(text);
    }

    // Adds to a span the text that the template writes after a turn only if another message
    // follows.
    Result<Span> after_separator(std::size_t index, Span span) {
        if (!separator_) separator_ = separator();
        if (!std::string_view(whole_).substr(span.end).starts_with(*separator_))
            return refused(index,
                           "the template does not always write the same text between two messages");
        return Span{span.begin, span.end + separator_->size()};
    }

    // Returns separator_text(). If the template only appends messages, the text is the same for all
    // conversations without tools and settings, so it is computed only once.
    std::string separator() const {
        const bool plain = conversation_.tools.is(Kind::None) &&
                           conversation_.settings.is(Kind::None) && !stops_.empty();
        if (!plain) return separator_text();
        std::call_once(model_.separator->once, [&] { model_.separator->text = separator_text(); });
        return model_.separator->text;
    }

    // Returns the text that the template writes after an answer only if another message follows. To
    // find this text, renders the same user's message twice: after an answer, and after another
    // user's message. Then compares the two texts before the message. Returns an empty text if the
    // template refuses such a conversation, or if the comparison does not show the text.
    std::string separator_text() const {
        const std::vector<Value> messages = {message("user", "a"), message("assistant", kMarks[1]),
                                             message("user", kMarks[0])};
        const auto asked = part(std::span(messages).first(1), /*prompt=*/false);
        const auto twice = part(std::vector<Value>{messages[0], messages[2]}, /*prompt=*/false);
        const auto answered = part(std::span(messages).first(2), /*prompt=*/false);
        const auto all = part(messages, /*prompt=*/false);
        if (!asked || !twice || !answered || !all || !twice->starts_with(*asked)) return {};
        const std::string_view header = before_mark(*twice, asked->size());
        const std::string_view end = after_mark(*answered, kMarks[1]);
        std::string_view between = after_mark(*all, kMarks[1]);
        between = between.substr(0, between.rfind(kMarks[0]));
        if (header.empty() || !between.starts_with(end)) return {};
        between.remove_prefix(end.size());
        if (!between.ends_with(header)) return {};
        between.remove_suffix(header.size());
        return std::string(between);
    }

    // Returns the text from `begin` up to the mark, or an empty text if there is no mark.
    static std::string_view before_mark(const std::string& text, std::size_t begin) {
        const std::size_t at = text.rfind(kMarks[0]);
        if (at == std::string::npos || at < begin) return {};
        return std::string_view(text).substr(begin, at - begin);
    }

    // Returns the position, at or after `end`, at which the text of the next message begins. Some
    // templates, such as Olmo 3's, write the EOS token after the last turn and another mark after
    // each earlier turn; this mark belongs to the turn. Messages that the template leaves out are
    // passed over. The content of the message at `index` ends at or after `content_end`.
    Result<std::size_t> before_next(std::size_t index, std::size_t end,
                                    std::size_t content_end) const {
        std::vector<Value> messages(messages_.begin(),
                                    messages_.begin() + static_cast<std::ptrdiff_t>(index));
        // A template may write nothing for an empty conversation. Use one message to get the text
        // that begins each conversation.
        if (index == 0) messages.push_back(message("user", "a"));
        auto before = part(messages, /*prompt=*/false);
        messages.emplace_back();
        for (std::size_t next = index + 1; before && next < messages_.size(); ++next) {
            messages.back() = marked(next, kMarks[0])[next];
            const auto both = part(messages, /*prompt=*/false);
            if (!both) break;
            const std::size_t mark = both->rfind(kMarks[0]);
            if (mark == std::string::npos || mark < before->size()) continue;
            const bool ends_once = !both->starts_with(*before);
            if (ends_once) remove_end(*before);
            if (!both->starts_with(*before)) break;
            ROLL_TRY(const std::size_t content, content_of(next));
            const std::string_view header = before_mark(*both, before->size());
            const std::string_view until = std::string_view(whole_).substr(0, content);
            if (content < end + header.size() || !until.ends_with(header)) break;
            const std::size_t begin = content - header.size();
            const std::string_view turn(whole_.data() + content_end, begin - content_end);
            if (ends_once && !ends_with_mark(index, turn)) break;
            return begin;
        }
        return refused(index, kDiffers);
    }

    // Returns whether `text` ends with the mark that the template writes at the end of the turn at
    // `index`. To find the mark, renders the conversation up to this turn: the mark is the text
    // between the content of the last message and the EOS token. Returns false if this text is
    // empty, because it then does not show where the turn ends and the next message begins.
    bool ends_with_mark(std::size_t index, std::string_view text) const {
        const std::vector<Value> messages = marked(index, kMarks[0]);
        const auto alone = part(std::span(messages).first(index + 1), /*prompt=*/false);
        if (!alone) return false;
        std::string mark(after_mark(*alone));
        remove_end(mark);
        return !mark.empty() && text.ends_with(mark);
    }

    // Returns the position at which the content of a message begins. To find it, renders the
    // conversation with a mark in place of the content: the text before the content stays the same.
    Result<std::size_t> content_of(std::size_t index, std::string_view key = "content") const {
        std::size_t position = whole_.size();
        for (const std::string_view mark : kMarks) {
            ROLL_TRY(const std::string other, part(marked(index, mark, key), /*prompt=*/false));
            position = std::min(position, common_prefix(whole_, other));
        }
        return position;
    }

    // Returns the position at which the turn of a message begins. This is the end of the prompt
    // that the template writes for the assistant. The prompt of some templates (DeepSeek's) also
    // opens the reasoning, which the text of the conversation does not have. The turn then begins
    // where the text of the conversation first differs from the prompt.
    Result<std::size_t> begin_of(std::size_t index) const {
        const std::span<const Value> earlier = messages_.first(index);
        if (const Stop* const stop = stop_after(earlier))
            if (std::string_view(whole_).substr(stop->size).starts_with(stop->prompt))
                return stop->size + stop->prompt.size();
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
        const Value user = message("user", "a");
        auto prompt = part({&user, 1}, /*prompt=*/true);
        auto before = part({&user, 1}, /*prompt=*/false);
        if (!prompt || !before) return refused(0, (prompt ? before : prompt).error().message);
        if (!prompt->starts_with(*before)) remove_end(*before);
        if (!prompt->starts_with(*before))
            return refused(0, "the text does not begin with the template's generation prompt");
        const std::string header = prompt->substr(before->size());
        ROLL_TRY(const std::size_t own, first_own_text());
        if (own == whole_.size())
            return refused(0, "the template changes or omits the content of this message");
        const std::string_view until = std::string_view(whole_).substr(0, own);
        if (const std::size_t at = until.rfind(header); !header.empty() && at != until.npos)
            return at + header.size();
        for (std::size_t size = header.size(); size > 0; --size)
            if (until.ends_with(header.substr(0, size))) return own;
        return refused(
            0, "the text of this turn does not begin with the template's generation prompt");
    }

    // Returns the position of the first text of the conversation that depends on the first message.
    Result<std::size_t> first_own_text() const {
        std::size_t position = whole_.size();
        for (const Entry& entry : messages_[0].dict->entries) {
            if (entry.key == "role" || !entry.value.is(Kind::String)) continue;
            ROLL_TRY(const std::size_t found, content_of(0, entry.key));
            position = std::min(position, found);
        }
        return position;
    }

    Value message(std::string_view role, std::string_view content) const {
        return dict({{"role", string(role)}, {"content", string(content)}}, arena_);
    }

    // Returns a copy of the messages in which `mark` is the content of the message at `index`, or
    // the text with another key.
    std::vector<Value> marked(std::size_t index, std::string_view mark,
                              std::string_view key = "content") const {
        std::vector<Value> messages(messages_.begin(), messages_.end());
        std::vector<Entry> entries(messages_[index].dict->entries.begin(),
                                   messages_[index].dict->entries.end());
        for (Entry& entry : entries)
            if (entry.key == key) entry.value = string(mark);
        messages[index] = dict(std::move(entries), arena_);
        return messages;
    }

    // Finds the span of a turn that is rendered differently if its message is the last one. Let E
    // be the text after the content if the message is the last one. If the content is also followed
    // by E in the whole conversation, the turn ends after E. Otherwise, the turn ends before the
    // text of the next message.
    Result<Span> by_mark(std::size_t index, std::size_t begin) {
        ROLL_TRY(const std::string tail, tail_of(index, begin));
        if (tail.empty()) return refused(index, kDiffers);
        const std::vector<Value> messages = marked(index, kMarks[0]);
        ROLL_TRY(const std::string alone,
                 part(std::span(messages).first(index + 1), /*prompt=*/false));
        const std::string_view end = after_mark(alone);
        const std::size_t content_end = whole_.size() - tail.size();
        if (end.empty() || !tail.starts_with(end)) {
            ROLL_TRY(const std::size_t next, before_next(index, content_end, content_end));
            return Span{begin, next};
        }
        const Span span{begin, content_end + end.size()};
        if (index + 1 == messages_.size()) return span;
        return end.size() == tail.size() ? refused(index, kDiffers) : after_separator(index, span);
    }

    static std::string_view after_mark(std::string_view text, std::string_view mark = kMarks[0]) {
        const std::size_t at = text.rfind(mark);
        return at == std::string::npos ? std::string_view() : text.substr(at + mark.size());
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

    tl::unexpected<Error> refused(std::size_t index, const std::string& why) const {
        return fail(ErrorCode::InvalidArgument,
                    "cannot find where the turn of message " + std::to_string(index + 1) +
                        " begins and ends in the text of " + model_.path + ": " + why +
                        "; use a template with {% generation %}");
    }

    static constexpr std::string_view kMarks[] = {"Rq7xVz", "mK2wQj"};
    static constexpr const char* kDiffers =
        "the template writes the text of this turn differently if later messages follow";

    const ModelTemplate& model_;
    const Conversation& conversation_;
    Arena& arena_;
    const RenderOptions& options_;
    const std::string& whole_;
    const std::vector<Stop>& stops_;
    std::span<const Value> messages_;
    std::optional<std::string> separator_ = {};  // result of separator(); unset until it is needed
};

// Returns the spans that the loss covers. Used for templates without the tag `generation`.
Result<std::vector<Span>> turns_of(const ModelTemplate& model, const Conversation& conversation,
                                   Arena& arena, const RenderOptions& options,
                                   const std::string& whole, const std::vector<Stop>& stops) {
    TurnFinder finder(model, conversation, arena, options, whole, stops);
    std::vector<Span> spans;
    const std::span<const Value> messages = conversation.messages.list();
    for (std::size_t i = messages.size(); i-- > 0;) {
        if (!is_assistant(messages[i])) continue;
        // If several messages of the assistant follow each other, skip all but the first. For the
        // first message, the code below returns the error.
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

Result<ChatText> chat_text(const ModelTemplate& model, const Conversation& conversation,
                           Arena& arena, const RenderOptions& options) {
    ROLL_TRY_VOID(check_content_lists(model, conversation, options));
    const std::span<const Value> messages = conversation.messages.list();
    std::vector<Stop> stops;
    ROLL_TRY(Rendered rendered, render(model, conversation, messages, false, arena, options,
                                       options.train_on == TrainOn::All ? nullptr : &stops));
    ChatText made{std::move(rendered.text), {}};
    if (options.train_on == TrainOn::All) {
        made.learned = {{0, made.text.size()}};
        return made;
    }
    if (conversation.completion > 0 && options.train_on == TrainOn::Assistant) {
        TurnFinder finder(model, conversation, arena, options, made.text, stops);
        ROLL_TRY(const Span span, finder.find_rest(messages.size() - conversation.completion));
        made.learned = {span};
    } else if (template_for(model, conversation).has_generation()) {
        made.learned = std::move(rendered.spans);
        if (options.train_on == TrainOn::Last && made.learned.size() > 1)
            made.learned = {made.learned.back()};
    } else {
        ROLL_TRY(made.learned, turns_of(model, conversation, arena, options, made.text, stops));
    }
    std::erase_if(made.learned, [](const Span& span) { return span.begin == span.end; });
    if (made.learned.empty())
        return fail(ErrorCode::InvalidArgument,
                    "has no text of the assistant in the output of the template " + model.path);
    return made;
}

}  // namespace roll::chat
