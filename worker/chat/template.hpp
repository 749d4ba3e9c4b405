// A chat template in the language of jinja2, as transformers' apply_chat_template renders it.
//
// Roll reads the part of the language that chat templates use. A parsed template is immutable; any
// number of threads may render it.
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
    // what the tag `generation` encloses, in order
    std::vector<Span> spans;
};

class Template {
  public:
    // Fails with InvalidArgument; the message names the line and what Roll cannot read.
    static Result<Template> parse(std::string_view source);

    bool has_generation() const;

    // Renders with these variables. The values lie in `memory`, from which the rendering takes its
    // memory too. strftime_now tells `now` in UTC. Fails with InvalidArgument; the message names
    // the line of the template.
    Result<Rendered> render(const std::vector<Entry>& variables, Arena& memory, std::time_t now,
                            const Limits& limits = {}) const;

  private:
    explicit Template(std::shared_ptr<const Syntax> syntax) : syntax_(std::move(syntax)) {}
    std::shared_ptr<const Syntax> syntax_;
};

}  // namespace roll::chat
