// Tests the limits of templates and what Roll refuses. chat_oracle.py compares texts with
// transformers.
#include <gtest/gtest.h>

#include "worker/chat/chat_text.hpp"
#include "worker/chat/json_value.hpp"

namespace roll::chat {
namespace {

std::string rendered(const std::string& source, const Limits& limits = {}) {
    const auto parsed = Template::parse(source);
    if (!parsed) return "parse: " + parsed.error().message;
    Arena arena(limits.memory);
    const auto made = parsed->render({}, arena, 1'700'000'000, limits);
    return made ? made->text : "run: " + made.error().message;
}

TEST(Template, UnknownPartsAreRefusedWithTheirLine) {
    EXPECT_EQ(
        rendered("a\n{% include 'x' %}"),
        "parse: line 2: the tag \"include\" is not supported; Roll reads for, if, set, macro, "
        "generation, break, continue and raw");
    EXPECT_EQ(rendered("\n\n{{ 1 | pprint }}"), "run: line 3: the filter pprint is not supported");
    EXPECT_EQ(rendered("{{ 'a'.zfill(3) }}"),
              "run: line 1: the method zfill of a string is not supported");
    EXPECT_EQ(rendered("{% if 1 is tall %}{% endif %}"),
              "run: line 1: the test tall is not supported");
    EXPECT_EQ(rendered("{% for x in y recursive %}{% endfor %}"),
              "parse: line 1: a recursive loop is not supported; use a macro that calls itself");
}

TEST(Template, BrokenSyntaxIsRefusedWithItsLine) {
    EXPECT_EQ(rendered("{% if 1 %}\na"), "parse: line 1: found no {% endif %} for this tag");
    EXPECT_EQ(rendered("a\n{{ 1 + }}"), "parse: line 2: expected an expression, found }}");
    EXPECT_EQ(rendered("{{ 1"), "parse: line 1: a tag {{ has no end }}");
    EXPECT_EQ(rendered("{# a"), "parse: line 1: a comment has no end #}");
    EXPECT_EQ(rendered("{{ 'a }}"), "parse: line 1: a string has no end");
    EXPECT_EQ(rendered("{{ \xff }}"), "parse: line 1: the template is not UTF-8");
    EXPECT_EQ(rendered("{{ " + std::string(500, '(') + " }}").substr(0, 14), "parse: line 1:");
    EXPECT_EQ(rendered("{{ 1" + std::string(5000, '+') + "1 }}").substr(0, 14), "parse: line 1:");
}

// a loop in a loop in a loop takes 10^15 steps
TEST(Template, AnEndlessTemplateIsRefused) {
    const std::string loop = "{% for i in range(100000) %}", end = "{% endfor %}";
    EXPECT_EQ(rendered("\n" + loop + loop + loop + end + end + end, {.steps = 100'000}),
              "run: line 2: the template does not end within 100000 steps, which is the limit; "
              "simplify its loops");
    EXPECT_EQ(rendered("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
              "run: line 1: macros call each other too deeply; allowed: at most 1000 levels");
    EXPECT_EQ(rendered("{{ range(100001) }}"),
              "run: line 1: range has too many items; allowed: at most 100,000");
}

TEST(Template, LargeTextsAreRefused) {
    EXPECT_EQ(rendered("{% for i in range(5) %}{{ 'abcd' * 1000000 }}{% endfor %}"),
              "run: line 1: the template writes more than 16 MiB, which is the limit; shorten the "
              "conversation");
    EXPECT_EQ(rendered("{{ 'a' * 99999999 }}"),
              "run: line 1: the result of * is larger than 16 MiB, which is the limit");
    EXPECT_EQ(rendered("{% set n = namespace(s='a') %}{% for i in range(60) %}"
                       "{% set n.s = n.s + n.s %}{% endfor %}",
                       {.memory = std::size_t{64} << 20U}),
              "run: line 1: the template needs more than 64 MiB of memory for one conversation, "
              "which is the limit; shorten the conversation");
    EXPECT_EQ(rendered("{% set n = namespace(l=[]) %}{% for i in range(900) %}"
                       "{% set n.l = [n.l] %}{% endfor %}{{ n.l }}"),
              "run: line 1: a value is nested too deeply; allowed: at most 200 levels");
}

// a list that holds the same list twice, 60 times over, is small and has 2^60 texts
TEST(Template, AValueThatIsLargeOnceWrittenIsRefused) {
    const std::string twice =
        "{% set n = namespace(l=['a'], k=['a']) %}{% for i in range(60) %}"
        "{% set n.l = [n.l, n.l] %}{% set n.k = [n.k, n.k] %}{% endfor %}";
    EXPECT_EQ(rendered(twice + "{{ n.l | tojson }}"),
              "run: line 1: the text of a value is larger than 16 MiB, which is the limit");
    EXPECT_EQ(rendered(twice + "{{ n.l }}"),
              "run: line 1: the text of a value is larger than 16 MiB, which is the limit");
    EXPECT_EQ(rendered(twice + "{{ n.l == n.k }}"),
              "run: line 1: comparing two values takes more than a million comparisons, which is "
              "the limit");
}

TEST(Template, TellsTheGivenTime) {
    EXPECT_EQ(rendered("{{ strftime_now('%d %b %Y') }}"), "14 Nov 2023");
}

// Renders a conversation of four messages. Returns how often a stop tells another text than the
// rendering of the first messages alone; -1 if there are no stops.
int wrong_stops(const std::string& source) {
    Arena arena(Limits{}.memory);
    const auto parsed = Template::parse(source);
    EXPECT_TRUE(parsed) << parsed.error().message;
    std::vector<Value> messages;
    for (const char* const role : {"system", "user", "assistant", "user"})
        messages.push_back(dict({{"role", string(role)}, {"content", string("<content>")}}, arena));
    const auto text = [&](std::size_t count, bool prompt, std::vector<Stop>* stops) {
        const auto made = parsed->render({{"messages", list(std::span(messages).first(count))},
                                          {"add_generation_prompt", boolean(prompt)}},
                                         arena, 0, {}, stops);
        return made ? made->text : made.error().message;
    };
    std::vector<Stop> stops;
    const std::string whole = text(messages.size(), false, &stops);
    if (stops.empty()) return -1;
    EXPECT_EQ(stops.size(), messages.size());
    int wrong = 0;
    for (std::size_t i = 0; i < stops.size(); ++i)
        for (const bool prompt : {false, true})
            wrong += whole.substr(0, stops[i].size) + (prompt ? stops[i].prompt : stops[i].end) !=
                     text(i + 1, prompt, nullptr);
    return wrong;
}

TEST(Stops, AreTheTextsOfTheFirstMessages) {
    const std::string loop =
        "{% for m in messages %}{% if loop.first and messages[0].role != 'system' %}S{% endif %}"
        "<{{ m.role }}>{{ m.content }}{% for c in m.content %}{% if loop.last %};{% endif %}"
        "{% endfor %}{% endfor %}";
    EXPECT_EQ(wrong_stops(loop + "{% if add_generation_prompt %}<a>{% else %}end{% endif %}"), 0);
    EXPECT_EQ(
        wrong_stops("{% set n = namespace(i=0) %}{% macro f(m) %}{{ m.content }}{% endmacro %}"
                    "{% for m in messages %}{% set n.i = n.i + 1 %}{{ f(m) }}{% endfor %}"
                    "{{ n.i }}{% if add_generation_prompt %}?{% endif %}"),
        0);
    // a statement that reads a later message does not run
    EXPECT_EQ(wrong_stops("{% for m in messages %}{{ m.content }}"
                          "{% if m.role == 'tool' and loop.last %};{% endif %}{% endfor %}"),
              0);
}

TEST(Stops, AreMissingIfATextDependsOnLaterMessages) {
    const std::string begin = "{% for m in messages %}{{ m.content }}";
    for (const char* const part :
         {"{% if loop.last %};{% endif %}{% endfor %}", "{{ loop.length }}{% endfor %}",
          "{{ messages | length }}{% endfor %}", "{{ messages[-1].role }}{% endfor %}",
          "{{ messages[loop.index0].role }}{% endfor %}",
          "{% if m.role == 'assistant' %}{% break %}{% endif %}{% endfor %}",
          "{{ add_generation_prompt }}{% endfor %}", "{{ strftime_now('%d') }}{% endfor %}",
          "{% set messages = [] %}{% endfor %}", "{% endfor %}{{ messages[-1].role }}",
          "{% endfor %}{% set x = 1 %}", "{% endfor %}{{ raise_exception('x') }}",
          "{{ loop.nextitem }}{% endfor %}",
          "{% for x in [] %}{% else %}{{ loop.last }}{% endfor %}{% endfor %}"})
        EXPECT_EQ(wrong_stops(begin + part), -1) << part;
    EXPECT_EQ(wrong_stops("{% set later = messages[1:] %}{% for m in messages %}{{ later }}"
                          "{% endfor %}"),
              -1);
    // only the rendering with a prompt fails, so only the stops are missing
    EXPECT_EQ(wrong_stops(begin + "{% endfor %}{% if add_generation_prompt %}{{ x.y }}{% endif %}"),
              -1);
}

// The turns of a template without the tag `generation`.
class Turns : public testing::Test {
  protected:
    // Returns the learned texts joined by |, or the error.
    std::string learned(const std::string& source, const std::string& record,
                        TrainOn train_on = TrainOn::Assistant) {
        Arena arena(Limits{}.memory);
        ModelTemplate model{
            need_value(Template::parse(source)), {}, {{"eos_token", "<end>"}}, {}, "t.jinja"};
        const auto conversation =
            conversation_of(need_value(read_json(record, arena)), Form::Messages, arena);
        if (!conversation) return conversation.error().message;
        const auto made = chat_text(model, *conversation, arena, {.train_on = train_on});
        if (!made) return made.error().message;
        std::string texts;
        for (const Span& span : made->learned)
            texts +=
                (texts.empty() ? "" : "|") + made->text.substr(span.begin, span.end - span.begin);
        return texts;
    }
    template <class T>
    static T need_value(Result<T> result) {
        EXPECT_TRUE(result) << result.error().message;
        return *std::move(result);
    }

    const std::string plain_ =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    const std::string tool_ =
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},)"
        R"({"role": "tool", "content": "c"}]})";
    const std::string two_ =
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},)"
        R"({"role": "user", "content": "c"}, {"role": "assistant", "content": "dé"}]})";
};

TEST_F(Turns, AreWhatTheAssistantAdds) {
    EXPECT_EQ(learned(plain_, two_), "b;|dé;");
    EXPECT_EQ(learned(plain_, two_, TrainOn::Last), "dé;");
    EXPECT_EQ(learned(plain_, two_, TrainOn::All), "<user>a;<assistant>b;<user>c;<assistant>dé;");
}

// as Qwen3's template, which writes something before the last answer only
TEST_F(Turns, AreFoundIfTheLastOneIsWrittenInAnotherWay) {
    const std::string last =
        "{% for m in messages %}<{{ m.role }}>"
        "{% if loop.last and m.role == 'assistant' %}[]{% endif %}{{ m.content }};{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    EXPECT_EQ(learned(last, two_), "b;|[]dé;");
}

// as Phi-3's template
TEST_F(Turns, EndBeforeAnEosTokenThatOnlyTheLastOneHas) {
    const std::string once =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% else %}{{ eos_token }}{% endif %}";
    EXPECT_EQ(learned(once, two_), "b;|dé;<end>");
}

// as Olmo 3's template
TEST_F(Turns, EndAfterTheMarkThatTheLastOneHasNot) {
    const std::string other =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
        "{{ eos_token if loop.last and m.role == 'assistant' else ';' }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    EXPECT_EQ(learned(other, two_), "b;|dé<end>");
}

// The text before the last message is the same whether the mark belongs to the answer or to the
// message after it
TEST_F(Turns, AreRefusedIfAnEosTokenHidesTheirMark) {
    const std::string hidden =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
        "{{ eos_token if loop.last and not add_generation_prompt else ';' }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    EXPECT_EQ(learned(hidden, two_),
              "cannot find where the turn of message 2 begins and ends in the text of t.jinja: the "
              "template writes the text of this turn differently if later messages follow; use a "
              "template with {% generation %}");
    EXPECT_EQ(learned(hidden, two_, TrainOn::Last), "dé<end>");
}

TEST_F(Turns, EndAfterTheSeparatorThatFollowsThem) {
    const std::string separated =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
        "{{ '' if loop.last and m.role == 'assistant' else ';' }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    EXPECT_EQ(learned(separated, two_), "b;|dé");
}

TEST_F(Turns, EndBeforeAnEosTokenThatFollowsAMessageLeftOut) {
    const std::string drops =
        "{% for m in messages if m.role != 'tool' %}<{{ m.role }}>{{ m.content }};{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% else %}{{ eos_token }}{% endif %}";
    EXPECT_EQ(learned(drops, tool_), "b;");
    EXPECT_EQ(learned("{% for m in messages if m.role != 'tool' %}<{{ m.role }}>{{ m.content }}"
                      "{{ eos_token if m.role == 'assistant' }}{% endfor %}"
                      "{% if add_generation_prompt %}<assistant>{% endif %}",
                      tool_),
              "b<end>");
}

TEST_F(Turns, WithAToolsAnswerInsideAreRefused) {
    const std::string inside =
        "{% for m in messages %}{% if m.role != 'tool' %}<{{ m.role }}>"
        "{{ loop.nextitem.content if loop.nextitem is defined and loop.nextitem.role == 'tool' }}"
        "{{ m.content }};{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    std::string answered = tool_;
    answered.insert(answered.rfind(']'), R"(,{"role": "user", "content": "d"})");
    EXPECT_EQ(learned(inside, answered),
              "cannot find where the turn of message 2 begins and ends in the text of t.jinja: the "
              "template writes message 3 inside this turn; use a template with {% generation %}");
}

// as DeepSeek's template, whose prompt begins a thought that old answers do not have
TEST_F(Turns, BeginWhereThePromptAndTheTextPart) {
    const std::string thinks =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}"
        "{% if add_generation_prompt %}<assistant><think>{% endif %}";
    EXPECT_EQ(learned(thinks, two_), "b;|dé;");
    std::string tags = two_;
    tags.replace(tags.find("\"b\""), 3, "\"<tt>\"");
    EXPECT_EQ(learned(thinks, tags), "<tt>;|dé;");
}

TEST_F(Turns, TheFirstMessageMayBeTheAssistants) {
    const std::string first = R"({"messages": [{"role": "assistant", "content": "b"},)"
                              R"({"role": "user", "content": "c"}]})";
    EXPECT_EQ(learned("S;" + plain_, first), "b;");
    std::string repeats = first;
    repeats.replace(repeats.find("\"b\""), 3, "\"x<assistant>\"");
    EXPECT_EQ(learned("S;" + plain_, repeats), "x<assistant>;");
    EXPECT_EQ(learned("{% for m in messages %}<{{ m.role }}{{ loop.index }}>{{ m.content }}"
                      "{% endfor %}{% if add_generation_prompt %}[answer]{% endif %}",
                      first),
              "cannot find where the turn of message 1 begins and ends in the text of t.jinja: the "
              "text of this turn does not begin with the template's generation prompt; use a "
              "template with {% generation %}");
}

TEST_F(Turns, ThatCannotBeToldApartAreRefused) {
    const std::string counted =
        "{{ messages|length }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    EXPECT_EQ(learned(counted, two_),
              "cannot find where the turn of message 4 begins and ends in the text of t.jinja: the "
              "template writes the text before this message differently if later messages follow; "
              "use a template with {% generation %}");
}

TEST_F(Turns, ATemplateForStringsRefusesListsInASentence) {
    const std::string listed = R"({"messages": [{"role": "assistant", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}]}]})";
    EXPECT_EQ(learned("{% for m in messages %}{{ m.role + m.content }}{% endfor %}", listed),
              "t.jinja, line 1: cannot compute a string + a list; the content of message 2 is a "
              "list: if the template reads only strings, write the content as a string");
}

TEST_F(Turns, ATemplateThatLeavesTheTextsOfAListOutIsRefused) {
    const std::string listed = R"({"messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "text", "text": "b"}]}]})";
    const std::string told =
        "message 2 has a list as its content, and the template t.jinja writes only strings; write "
        "the content as a string";
    const std::string head = "{% for m in messages %}<{{ m.role }}>", foot = ";{% endfor %}";
    const std::string start = "{% if add_generation_prompt %}<assistant>{% endif %}";
    EXPECT_EQ(learned(head + "{{ m.content if m.content is string }}" + foot + start, listed),
              told);
    EXPECT_EQ(learned(head + "{{ m.content }}" + foot + start, listed), told)
        << "printed as a list";
    const std::string both =
        "{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}";
    EXPECT_EQ(learned(head + both + foot + start, listed), "b;");
}

TEST_F(Turns, AConversationWithoutAnAnswerIsRefused) {
    EXPECT_EQ(learned(plain_, R"({"messages": [{"role": "user", "content": "a"}]})"),
              "has 1 message, none with the role assistant, so there is nothing to learn");
    EXPECT_EQ(learned("{{ raise_exception('roles must alternate') }}", two_),
              "t.jinja, line 1: the template refuses the conversation: roles must alternate");
}

}  // namespace
}  // namespace roll::chat
