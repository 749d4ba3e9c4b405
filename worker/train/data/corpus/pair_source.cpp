#include "worker/train/data/corpus/pair_source.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "worker/chat/content_lists.hpp"
#include "worker/chat/json_value.hpp"
#include "worker/train/data/corpus/tokens.hpp"

namespace roll::data {
namespace {

using chat::Kind;
using chat::Value;

tl::unexpected<Error> no_pair(std::string reason) {
    return fail(ErrorCode::InvalidArgument, std::move(reason));
}

std::string quoted(const Value& value) {
    constexpr std::size_t kLongest = 60;
    std::string text;
    chat::append_repr(value, text);
    return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

Value field(const Value& record, std::string_view name) {
    const Value* const found = record.dict->find(name);
    return found == nullptr ? chat::none() : *found;
}

const char* kind_of_answer(const Value& value) {
    if (value.is(Kind::String)) return "a text";
    return value.is(Kind::List) ? "a list of messages" : "a message";
}

// Checks that both answers exist and are of the same kind.
Result<void> check_answers(const Value& record) {
    for (const char* const name : {"chosen", "rejected"}) {
        const std::string its = std::string("its field \"") + name + "\" is ";
        const Value value = field(record, name);
        if (record.dict->find(name) == nullptr)
            return no_pair(std::string("has no field \"") + name + "\"");
        if (!value.is(Kind::String) && !value.is(Kind::List) && !value.is(Kind::Dict))
            return no_pair(its + quoted(value) + "; allowed: a text, or a list of messages");
        if (!value.is(Kind::Dict) && value.size == 0) return no_pair(its + "empty");
    }
    const Value chosen = field(record, "chosen"), rejected = field(record, "rejected");
    if (chosen.kind != rejected.kind)
        return no_pair(std::string("its field \"chosen\" is ") + kind_of_answer(chosen) +
                       ", and its field \"rejected\" is " + kind_of_answer(rejected));
    if (chat::equal(chosen, rejected))
        return no_pair("its fields \"chosen\" and \"rejected\" are equal: " + quoted(chosen));
    return {};
}

// The text of a prompt, and the texts of the prompt followed by each answer.
struct Texts {
    std::string prompt = {}, chosen = {}, rejected = {};
    bool conversation = false;
};

// Returns the texts of a record without a prompt. As in TRL, the common beginning of both texts is
// the prompt. If the first difference comes after a space, this space is not part of the prompt.
Texts split_texts(std::string_view chosen, std::string_view rejected) {
    const std::size_t most = std::min(chosen.size(), rejected.size()) - 1;
    auto shared =
        static_cast<std::size_t>(std::ranges::mismatch(chosen, rejected).in1 - chosen.begin());
    if (shared > 0 && shared <= most && chosen[shared - 1] == ' ') --shared;
    shared = std::min(shared, most);
    // a prompt must not end inside a character
    while (shared > 0 && (static_cast<unsigned char>(chosen[shared]) & 0xC0U) == 0x80U) --shared;
    return {std::string(chosen.substr(0, shared)), std::string(chosen), std::string(rejected)};
}

Result<Texts> plain_texts(const Value& record, const std::string& prompt_field) {
    const Value prompt = field(record, prompt_field), chosen = field(record, "chosen"),
                rejected = field(record, "rejected");
    if (prompt.is(Kind::None)) return split_texts(chosen.text(), rejected.text());
    if (!prompt.is(Kind::String))
        return no_pair("its field \"" + prompt_field + "\" is " + quoted(prompt) +
                       "; allowed: a text, because the answers are texts");
    const std::string before(prompt.text());
    return Texts{before, before + std::string(chosen.text()),
                 before + std::string(rejected.text())};
}

// Returns a copy of the record in which `name` has another value.
Value with_field(const Value& record, std::string_view name, const Value& value,
                 chat::Arena& arena) {
    std::vector<chat::Entry> entries(record.dict->entries.begin(), record.dict->entries.end());
    entries.push_back({name, value});  // if a name occurs several times, the last value counts
    return chat::dict(std::move(entries), arena);
}

Value joined(const Value& list, std::span<const Value> more, chat::Arena& arena) {
    std::vector<Value> items(list.list().begin(), list.list().end());
    items.insert(items.end(), more.begin(), more.end());
    return chat::list(items, arena);
}

// A record of one conversation: the prompt with one answer.
struct Whole {
    Value record;
    chat::Form form = chat::Form::Messages;
    std::size_t answer = 1;  // number of messages in the answer
};

// Returns how many messages at the beginning of both lists are equal. Never counts the last message
// of a list.
std::size_t shared_messages(const Value& chosen, const Value& rejected) {
    const std::size_t most = std::min(chosen.size, rejected.size) - 1;
    std::size_t shared = 0;
    while (shared < most && chat::equal(chosen.items[shared], rejected.items[shared])) ++shared;
    return shared;
}

Result<Whole> in_its_form(const Value& record, const chat::Names& names) {
    const auto form = chat::form_of(record, names);
    if (!form) return no_pair("has answers, but no conversation that they answer");
    return Whole{record, *form};
}

// Returns the record of a conversation that ends with the answer in the field `side`.
Result<Whole> whole_of(const Value& record, std::string_view side, const PairRules& rules,
                       chat::Arena& arena) {
    const auto name_of = [&](const char* key, const char* usual) {
        const auto found = rules.fields.names.columns.find(key);
        return found == rules.fields.names.columns.end() ? std::string_view(usual)
                                                         : std::string_view(found->second);
    };
    const Value answer = field(record, side);
    if (answer.is(Kind::String))
        return in_its_form(with_field(record, name_of("response", "output"), answer, arena),
                           rules.fields.names);
    if (answer.is(Kind::Dict)) {
        const std::string_view list = name_of("messages", "conversations");
        if (!field(record, list).is(Kind::List))
            return no_pair("has answers that are messages, but no list \"" + std::string(list) +
                           "\" with the messages before the answers");
        return in_its_form(
            with_field(record, list, joined(field(record, list), {&answer, 1}, arena), arena),
            rules.fields.names);
    }
    const Value prompt = field(record, rules.fields.prompt);
    if (prompt.is(Kind::List))
        return Whole{with_field(record, "messages", joined(prompt, answer.list(), arena), arena),
                     chat::Form::Messages, answer.size};
    const std::size_t shared = shared_messages(field(record, "chosen"), field(record, "rejected"));
    return Whole{with_field(record, "messages", answer, arena), chat::Form::Messages,
                 answer.size - shared};
}

Result<void> needs_template(const PairRules& rules) {
    if (rules.chat != nullptr) return {};
    return no_pair("has conversations, and " + rules.no_chat +
                   "; set `tokenizer` to a directory whose tokenizer_config.json has a "
                   "chat_template, or that has a chat_template.jinja");
}

// The text of a prompt, and the text of the prompt followed by its answer.
struct WholeText {
    std::string prompt = {}, all = {};
};

Result<WholeText> whole_text(const Whole& whole, const chat::Names& names, const PairRules& rules,
                             chat::Arena& arena) {
    ROLL_TRY(const chat::Conversation conversation,
             chat::conversation_of(whole.record, whole.form, arena, names));
    ROLL_TRY_VOID(chat::check_content_lists(*rules.chat, conversation, rules.render));
    const std::span<const Value> messages = conversation.messages.list();
    const auto rendered = [&](std::span<const Value> some, bool ask) {
        return chat::render(*rules.chat, conversation, some, ask, arena, rules.render);
    };
    ROLL_TRY(chat::Rendered all, rendered(messages, false));
    WholeText text{.all = std::move(all.text)};
    const auto before = messages.first(messages.size() - whole.answer);
    if (before.empty()) return text;
    ROLL_TRY(chat::Rendered asked, rendered(before, true));
    text.prompt = std::move(asked.text);
    return text;
}

Result<Texts> conversation_texts(const Value& record, const PairRules& rules, chat::Arena& arena) {
    ROLL_TRY_VOID(needs_template(rules));
    Texts texts{.conversation = true};
    for (const auto& [side, text] :
         {std::pair("chosen", &texts.chosen), std::pair("rejected", &texts.rejected)}) {
        ROLL_TRY(const Whole whole, whole_of(record, side, rules, arena));
        const bool named = whole.form != chat::Form::Messages;
        ROLL_TRY(WholeText read,
                 whole_text(whole, named ? rules.fields.names : chat::Names(), rules, arena));
        *text = std::move(read.all);
        if (!read.prompt.empty()) texts.prompt = std::move(read.prompt);
    }
    return texts;
}

// Returns whether the answers of a pair are texts to which no chat template is applied.
bool is_plain(const Value& record, const AnswerFields& fields) {
    const auto found = fields.names.columns.find("prompt");
    const std::string_view name =
        found == fields.names.columns.end() ? "instruction" : std::string_view(found->second);
    const bool alpaca =
        field(record, fields.prompt).is(Kind::None) && field(record, name).is(Kind::String);
    return field(record, "chosen").is(Kind::String) && !alpaca;
}

Result<Value> record_of(std::string_view line, chat::Arena& arena) {
    ROLL_TRY(const Value record, chat::read_json(line, arena));
    if (!record.is(Kind::Dict)) return no_pair("is not a JSON object");
    return record;
}

// Marks the first `count` tokens as context only.
void only_read_first(std::vector<std::uint32_t>& tokens, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        tokens[i] = static_cast<std::uint32_t>(only_read(tokens[i]));
}

Result<float> margin_of(const Value& record, const std::string& name) {
    const Value margin = field(record, name);
    if (margin.is(Kind::Int) || margin.is(Kind::Float)) {
        const auto number = static_cast<float>(chat::real(margin, "a margin"));
        if (std::isfinite(number)) return number;
    }
    return no_pair(record.dict->find(name) == nullptr
                       ? "has no field \"" + name + "\", which data.margin_field names"
                       : "its field \"" + name + "\" is " + quoted(margin) + "; allowed: a number");
}

Result<AnswerPair> encoded_pair(const Value& record, const PairRules& rules, chat::Arena& arena) {
    ROLL_TRY_VOID(check_answers(record));
    const bool plain = is_plain(record, rules.fields);
    auto texts =
        plain ? plain_texts(record, rules.fields.prompt) : conversation_texts(record, rules, arena);
    if (!texts) return tl::unexpected(texts.error());
    const auto encoded = [&](const std::string& text) {
        return rules.tokenizer.encode(text, {.add_special = plain && rules.add_special});
    };
    AnswerPair pair{encoded(texts->chosen), encoded(texts->rejected), texts->conversation};
    if (!rules.fields.margin.empty()) {
        ROLL_TRY(pair.margin, margin_of(record, rules.fields.margin));
    }
    if (pair.chosen == pair.rejected)
        return no_pair("its fields \"chosen\" and \"rejected\" have the same tokens");
    const std::vector<std::uint32_t> prompt = encoded(texts->prompt);
    const auto shared = [&](const std::vector<std::uint32_t>& answer) {
        return std::ranges::mismatch(prompt, answer).in1 - prompt.begin();
    };
    const auto begin =
        static_cast<std::size_t>(std::min(shared(pair.chosen), shared(pair.rejected)));
    for (std::vector<std::uint32_t>* answer : {&pair.chosen, &pair.rejected})
        only_read_first(*answer, begin);
    return pair;
}

// Returns whether the record has its prompt and its answer as texts. A chat template is not applied
// to texts, only to messages.
bool is_labelled_text(const Value& record, const AnswerFields& fields) {
    return field(record, fields.completion).is(Kind::String) &&
           field(record, fields.prompt).is(Kind::String);
}

// Returns the texts of a record that has one answer. If no field has an answer, the answer is
// the last message of the conversation. Sets `conversation` if a chat template writes the
// text.
Result<WholeText> labelled_text(const Value& record, const PairRules& rules, bool& conversation,
                                chat::Arena& arena) {
    const Value answer = field(record, rules.fields.completion);
    const Value prompt = field(record, rules.fields.prompt);
    if (is_labelled_text(record, rules.fields)) {
        if (answer.size == 0)
            return no_pair("its field \"" + rules.fields.completion + "\" is empty");
        const std::string before(prompt.text());
        return WholeText{before, before + std::string(answer.text())};
    }
    conversation = true;
    ROLL_TRY_VOID(needs_template(rules));
    if (answer.is(Kind::List) && prompt.is(Kind::List)) {
        const Value all = joined(prompt, answer.list(), arena);
        return whole_text({with_field(record, "messages", all, arena), chat::Form::Messages,
                           std::max<std::size_t>(answer.size, 1)},
                          {}, rules, arena);
    }
    const auto form = chat::form_of(record, rules.fields.names);
    if (!form)
        return no_pair("has neither texts nor lists of messages in its fields \"" +
                       rules.fields.prompt + "\" and \"" + rules.fields.completion +
                       "\", and no conversation");
    return whole_text({record, *form}, rules.fields.names, rules, arena);
}

Result<bool> label_of(const Value& record, const std::string& name) {
    const Value label = field(record, name);
    if (label.is(Kind::Bool)) return chat::truth(label);
    return no_pair(record.dict->find(name) == nullptr
                       ? "has no field \"" + name + "\""
                       : "its field \"" + name + "\" is " + quoted(label) +
                             "; allowed: true or false");
}

bool has_both_answers(const Value& record) {
    return record.dict->find("chosen") != nullptr && record.dict->find("rejected") != nullptr;
}

Result<LabelledAnswer> encoded_answer(const Value& record, const PairRules& rules,
                                      chat::Arena& arena) {
    ROLL_TRY(const bool label, label_of(record, rules.fields.label));
    LabelledAnswer answer{.tokens = {}, .chosen = label};
    ROLL_TRY(const WholeText text, labelled_text(record, rules, answer.conversation, arena));
    const bool adds = !answer.conversation && rules.add_special;
    answer.tokens = rules.tokenizer.encode(text.all, {.add_special = adds});
    const auto prompt = rules.tokenizer.encode(text.prompt, {.add_special = adds});
    const auto shared = std::ranges::mismatch(prompt, answer.tokens).in1 - prompt.begin();
    only_read_first(answer.tokens, static_cast<std::size_t>(shared));
    return answer;
}

Result<std::vector<LabelledAnswer>> labelled_answers(std::string_view line,
                                                     const PairRules& rules) {
    chat::Arena arena(rules.render.limits.memory);
    ROLL_TRY(const Value record, record_of(line, arena));
    if (!has_both_answers(record)) {
        ROLL_TRY(LabelledAnswer one, encoded_answer(record, rules, arena));
        return std::vector{std::move(one)};
    }
    ROLL_TRY(AnswerPair pair, encoded_pair(record, rules, arena));
    return std::vector<LabelledAnswer>{{std::move(pair.chosen), true, pair.conversation},
                                       {std::move(pair.rejected), false, pair.conversation}};
}

// Like has_chat_answers(), but throws chat::Failure if the line cannot be read.
Result<bool> chat_answers(std::string_view line, const AnswerFields& fields, bool labels) {
    chat::Arena arena(chat::Limits{}.memory);
    ROLL_TRY(const Value record, record_of(line, arena));
    if (!labels || has_both_answers(record)) {
        ROLL_TRY_VOID(check_answers(record));
        if (!fields.margin.empty()) ROLL_TRY_VOID(margin_of(record, fields.margin));
        return !is_plain(record, fields);
    }
    ROLL_TRY_VOID(label_of(record, fields.label));
    return !is_labelled_text(record, fields);
}

}  // namespace

Result<bool> has_chat_answers(std::string_view line, const AnswerFields& fields, bool labels) {
    try {
        return chat_answers(line, fields, labels);
    } catch (const chat::Failure& failure) {
        return no_pair(failure.message);
    }
}

Result<AnswerPair> read_pair(std::string_view line, const PairRules& rules) {
    try {
        chat::Arena arena(rules.render.limits.memory);
        ROLL_TRY(const Value record, record_of(line, arena));
        return encoded_pair(record, rules, arena);
    } catch (const chat::Failure& failure) {
        return no_pair(failure.message);
    }
}

Result<std::vector<LabelledAnswer>> read_labelled(std::string_view line, const PairRules& rules) {
    try {
        return labelled_answers(line, rules);
    } catch (const chat::Failure& failure) {
        return no_pair(failure.message);
    }
}

}  // namespace roll::data
