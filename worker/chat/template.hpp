// A chat template in the jinja2 language. Roll renders it like apply_chat_template of transformers.
//
// Roll supports the part of the language that chat templates use. A parsed template is immutable,
// so several threads may render it at the same time.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "worker/chat/renderer.hpp"

namespace roll::chat {

struct Rendered {
    std::string text;
    // ranges of `text` inside the tag `generation`, in ascending order
    std::vector<Span> spans;
};

class Template {
  public:
    // Parses a template. Fails with InvalidArgument; the message names the line and the unsupported
    // text.
    static Result<Template> parse(std::string_view source);

    bool has_generation() const;

    // Renders the template with these variables. `memory` must hold the variables' values;
    // rendering also allocates from `memory`. `now` is the time that the template's function
    // strftime_now formats, in UTC. Fails with InvalidArgument; the message names the line of the
    // template. If each message appended its text to the text of the messages before it
    // (growth.hpp), adds a stop for each message to `stops`.
    Result<Rendered> render(const std::vector<Entry>& variables, Arena& memory, std::time_t now,
                            const Limits& limits = {}, std::vector<Stop>* stops = nullptr) const;

  private:
    explicit Template(std::shared_ptr<const Syntax> syntax) : syntax_(std::move(syntax)) {}
    std::shared_ptr<const Syntax> syntax_;
};

}  // namespace roll::chat
