#include "worker/chat/template.hpp"

#include "worker/chat/growth.hpp"

namespace roll::chat {
namespace {

constexpr std::size_t kSourceMax = std::size_t{1} << 20U;

tl::unexpected<Error> failed(const Failure& failure, int line) {
    return fail(
        ErrorCode::InvalidArgument,
        "line " + std::to_string(failure.line != 0 ? failure.line : line) + ": " + failure.message);
}

}  // namespace

Result<Template> Template::parse(std::string_view source) {
    if (source.size() > kSourceMax)
        return fail(ErrorCode::InvalidArgument, "is too long; allowed: at most 1 MiB");
    auto syntax = std::make_shared<Syntax>();
    try {
        parse_template(source, *syntax);
        find_growth(*syntax);
    } catch (const Failure& failure) {
        return failed(failure, 1);
    }
    return Template(std::move(syntax));
}

bool Template::has_generation() const { return syntax_->has_generation; }

Result<Rendered> Template::render(const std::vector<Entry>& variables, Arena& memory,
                                  std::time_t now, const Limits& limits,
                                  std::vector<Stop>* stops) const {
    Renderer renderer(*syntax_, memory, limits, now);
    if (stops != nullptr) renderer.record(*stops);
    try {
        for (const Entry& variable : variables) renderer.define(variable.key, variable.value);
        renderer.run();
    } catch (const Failure& failure) {
        return failed(failure, renderer.line());
    }
    return Rendered{renderer.take_output(), renderer.take_spans()};
}

}  // namespace roll::chat
