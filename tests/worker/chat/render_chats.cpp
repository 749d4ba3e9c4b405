// render_chats: reads lines {"template": .., "tokens": {..}, "record": {"messages": ..},
// "prompt": bool, "train_on": ..} and writes for each {"text": .., "learned": [[begin, end], ..]},
// in bytes, or {"error": ..}. Without "train_on", the spans are those of the template alone.
#include <iostream>

#include "common/json.hpp"
#include "worker/chat/chat_text.hpp"
#include "worker/chat/json_value.hpp"

namespace {

using namespace roll;
using namespace roll::chat;

Result<ModelTemplate> model_of(const Json& input) {
    ROLL_TRY(Template parsed, Template::parse(input["template"].get<std::string>()));
    ModelTemplate model{.usual = std::move(parsed), .with_tools = {}, .path = "template"};
    for (const auto& [name, text] : input["tokens"].items())
        model.tokens.emplace_back(name, text.get<std::string>());
    return model;
}

Result<ChatText> rendered(const std::string& line, const Json& input) {
    ROLL_TRY(const ModelTemplate model, model_of(input));
    Arena arena(Limits{}.memory);
    ROLL_TRY(const Value record, read_json(line, arena));
    ROLL_TRY(const Conversation conversation,
             conversation_of(*record.dict->find("record"), Form::Messages, arena));
    if (input.contains("train_on")) return chat_text(model, conversation, arena, {});
    ROLL_TRY(Rendered made, render(model, conversation, conversation.messages.list(),
                                   input.value("prompt", false), arena, {}));
    return ChatText{std::move(made.text), std::move(made.spans)};
}

}  // namespace

int main() {
    std::string line;
    while (std::getline(std::cin, line)) {
        const auto made = rendered(line, Json::parse(line));
        Json out{{"error", made ? "" : made.error().message}};
        if (made) {
            out = {{"text", made->text}, {"learned", Json::array()}};
            for (const Span& span : made->learned) out["learned"].push_back({span.begin, span.end});
        }
        std::cout << out.dump() << "\n";
    }
    return 0;
}
