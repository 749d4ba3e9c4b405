#include "worker/chat/renderer.hpp"

#include <algorithm>

#include "common/counted.hpp"
#include "worker/chat/growth.hpp"
#include "worker/chat/json_value.hpp"
#include "worker/chat/text.hpp"

namespace roll::chat {
namespace {

constexpr int kRunDepthMax = 1000;
constexpr std::size_t kBytesPerStep = 16;
constexpr std::int64_t kRangeMax = 100'000;  // the same limit as in jinja2

}  // namespace

Renderer::Deeper::Deeper(Renderer& renderer) : renderer_(renderer) {
    if (++renderer_.depth_ > kRunDepthMax)
        refuse("macros call each other too deeply; allowed: at most 1000 levels");
}

Renderer::Renderer(const Syntax& syntax, Arena& memory, const Limits& limits, std::time_t now)
    : syntax_(syntax),
      arena_(memory),
      limits_(limits),
      now_(now),
      loop_name_(static_cast<int>(std::ranges::find(syntax.names, "loop") - syntax.names.begin())),
      globals_(syntax.names.size()),
      defined_(syntax.names.size()) {}

void Renderer::define(std::string_view name, const Value& value) {
    const auto found = std::ranges::find(syntax_.names, name);
    if (found != syntax_.names.end()) set(static_cast<int>(found - syntax_.names.begin()), value);
}

void Renderer::record(std::vector<Stop>& stops) {
    if (syntax_.growth >= 0) stops_ = &stops;
}

void Renderer::run() { run(syntax_.body); }

void Renderer::work(std::size_t amount) {
    steps_ += static_cast<std::int64_t>(amount / kBytesPerStep) + 1;
    if (steps_ > limits_.steps)
        refuse("the template does not end within " + std::to_string(limits_.steps) +
               " steps, which is the limit; simplify its loops");
}

void Renderer::check_output() const {
    if (out_.size() + held_ > limits_.output)
        refuse("the template writes more than " + std::to_string(limits_.output >> 20U) +
               " MiB, which is the limit; shorten the conversation");
}

void Renderer::write(const Value& value) {
    const std::size_t before = out_.size();
    append_str(value, out_);
    work(out_.size() - before);
    check_output();
}

void Renderer::set(int name, const Value& value) {
    const auto number = static_cast<std::size_t>(name);
    if (scopes_ == 0) {
        globals_[number] = value;
        defined_[number] = true;
        return;
    }
    for (std::size_t i = locals_.size(); i-- > scope_begin_;)
        if (locals_[i].name == name) return void(locals_[i].value = value);
    locals_.push_back({name, value});
}

const Value* Renderer::find(int name) const {
    for (std::size_t i = locals_.size(); i-- > macro_begin_;)
        if (locals_[i].name == name) return &locals_[i].value;
    const auto number = static_cast<std::size_t>(name);
    return defined_[number] ? &globals_[number] : nullptr;
}

void Renderer::bind(const std::vector<int>& targets, const Value& value) {
    if (targets.size() == 1) return set(targets[0], value);
    const std::span<const Value> items = iterate(value, arena_);
    if (items.size() != targets.size())
        refuse("cannot take " + counted(targets.size(), "value") + " from " +
               std::to_string(items.size()));
    for (std::size_t i = 0; i < items.size(); ++i) set(targets[i], items[i]);
}

Renderer::Flow Renderer::run(const std::vector<Statement>& statements) {
    const Deeper deeper(*this);
    for (const Statement& statement : statements)
        if (const Flow flow = run(statement); flow != Flow::Next) return flow;
    return Flow::Next;
}

Renderer::Flow Renderer::run(const Statement& statement) {
    line_ = statement.line;
    work(0);
    switch (statement.does) {
        case Does::Data: write(statement.exprs[0].value); break;
        case Does::Output: write(eval(statement.exprs[0])); break;
        case Does::If:
            return run(truth(eval(statement.exprs[0])) ? statement.body : statement.other);
        case Does::For: return run_loop(statement);
        case Does::Set: assign(statement); break;
        case Does::Capture: set(statement.targets[0], string(capture(statement.body))); break;
        case Does::Macro: {
            Value macro;
            macro.kind = Kind::Macro;
            macro.macro = &statement;
            set(statement.targets[0], macro);
            break;
        }
        case Does::Generation: run_generation(statement); break;
        case Does::Break: return Flow::Break;
        case Does::Continue: return Flow::Continue;
    }
    return Flow::Next;
}

// Returns the items over which a for statement loops: all items, or only those for which its `if`
// condition is true.
std::vector<Value> Renderer::items_of(const Statement& statement) {
    const Value whole = eval(statement.exprs[0]);
    const std::span<const Value> all = iterate(whole, arena_);
    work(all.size());
    if (statement.exprs.size() == 1) return {all.begin(), all.end()};
    std::vector<Value> kept;
    const std::size_t outer = std::exchange(scope_begin_, locals_.size());
    ++scopes_;
    for (const Value& item : all) {
        locals_.resize(scope_begin_);
        bind(statement.targets, item);
        if (truth(eval(statement.exprs[1]))) kept.push_back(item);
    }
    --scopes_;
    locals_.resize(scope_begin_);
    scope_begin_ = outer;
    return kept;
}

Renderer::Flow Renderer::run_loop(const Statement& statement) {
    const std::vector<Value> items = items_of(statement);
    if (items.empty()) return run(statement.other);
    Loop* const loop = arena_.make<Loop>(1);
    std::construct_at(loop, Loop{arena_.copy(items)});
    Value state;
    state.kind = Kind::Loop;
    state.loop = loop;
    const std::size_t outer = std::exchange(scope_begin_, locals_.size());
    ++scopes_;
    for (; loop->index < items.size(); ++loop->index) {
        work(0);
        locals_.resize(scope_begin_);
        if (std::cmp_less(loop_name_, defined_.size())) set(loop_name_, state);
        bind(statement.targets, items[loop->index]);
        if (run(statement.body) == Flow::Break) break;
        if (stops_ != nullptr && &statement == &syntax_.body[std::size_t(syntax_.growth)])
            add_stop();
    }
    --scopes_;
    locals_.resize(scope_begin_);
    scope_begin_ = outer;
    return Flow::Next;
}

void Renderer::drop_stops() {
    if (stops_ != nullptr) stops_->clear();
    stops_ = nullptr;
}

// Runs the statements after the loop over the messages, as if the current message were the last
// one, and restores the state of the rendering. If a statement fails, no stops are recorded.
void Renderer::add_stop() {
    const auto found = std::ranges::find(syntax_.names, kPromptName);
    Value unused;
    Value& prompt = found == syntax_.names.end()
                        ? unused
                        : globals_[static_cast<std::size_t>(found - syntax_.names.begin())];
    const Value asked = prompt;
    const std::int64_t steps = steps_;
    const int scopes = std::exchange(scopes_, 0);
    locals_.resize(scope_begin_);
    Stop stop{out_.size()};
    const std::span<const Statement> rest =
        std::span(syntax_.body).subspan(static_cast<std::size_t>(syntax_.growth) + 1);
    try {
        for (const auto& [asks, text] : {std::pair(false, &stop.end), {true, &stop.prompt}}) {
            prompt = boolean(asks);
            for (const Statement& statement : rest) run(statement);
            *text = out_.substr(stop.size);
            out_.resize(stop.size);
        }
        if (stops_ != nullptr) stops_->push_back(std::move(stop));
    } catch (const Failure&) {
        out_.resize(stop.size);
        drop_stops();
    }
    prompt = asked;
    scopes_ = scopes;
    steps_ = steps;
}

// Renders the tag `generation` and records its span. Fails if the tag is inside a macro or a
// set block, because the captured text may appear anywhere in the output and its span is
// unknown.
void Renderer::run_generation(const Statement& statement) {
    if (captures_ > 0)
        refuse(
            "the tag `generation` is not supported inside a macro, a set block or another "
            "`generation`");
    const std::size_t begin = out_.size();
    const std::size_t outer = std::exchange(scope_begin_, locals_.size());
    ++scopes_;
    ++captures_;
    run(statement.body);
    --captures_;
    --scopes_;
    locals_.resize(scope_begin_);
    scope_begin_ = outer;
    spans_.push_back({begin, out_.size()});
}

void Renderer::assign(const Statement& statement) {
    const Value value = eval(statement.exprs[0]);
    if (statement.attribute.empty()) return bind(statement.targets, value);
    const Value* const space = find(statement.targets[0]);
    if (space == nullptr || !space->is(Kind::Namespace))
        refuse(syntax_.names[static_cast<std::size_t>(statement.targets[0])] +
               " is not a namespace; its attribute " + statement.attribute + " cannot be set");
    for (auto& [name, old] : space->space->values)
        if (name == statement.attribute) return void(old = value);
    space->space->values.emplace_back(statement.attribute, value);
}

std::string_view Renderer::capture(const std::vector<Statement>& body) {
    std::string outer = std::exchange(out_, {});
    held_ += outer.size();
    ++captures_;
    run(body);
    --captures_;
    held_ -= outer.size();
    const std::string_view made = arena_.copy(out_);
    out_ = std::move(outer);
    return made;
}

Value Renderer::call_macro(const Statement& macro, const Call& call) {
    const Deeper deeper(*this);
    const std::size_t parameters = macro.targets.size() - 1;
    if (call.positional.size() > parameters)
        refuse(std::string(call.name) + " takes " + std::to_string(parameters) +
               " arguments and got " + std::to_string(call.positional.size()));
    const std::size_t begin = std::exchange(macro_begin_, locals_.size());
    const std::size_t scope = std::exchange(scope_begin_, locals_.size());
    const int line = line_;
    ++scopes_;
    std::size_t known = call.positional.size();
    for (std::size_t i = 0; i < parameters; ++i) {
        const int name = macro.targets[i + 1];
        const auto keyword =
            std::ranges::find(call.keywords, syntax_.names[static_cast<std::size_t>(name)]);
        const std::size_t defaults = parameters - macro.exprs.size();
        if (i < call.positional.size())
            set(name, call.positional[i]);
        else if (keyword != call.keywords.end())
            ++known,
                set(name, call.named[static_cast<std::size_t>(keyword - call.keywords.begin())]);
        else
            set(name, i < defaults ? Value() : eval(macro.exprs[i - defaults]));
    }
    if (known != call.positional.size() + call.keywords.size())
        refuse(std::string(call.name) + " has no parameter " + call.keywords.front());
    const Value made = string(capture(macro.body));
    --scopes_;
    locals_.resize(macro_begin_);
    macro_begin_ = begin;
    scope_begin_ = scope;
    line_ = line;
    return made;
}

Value Renderer::space(const std::vector<Entry>& entries) {
    // count the namespace's memory against the arena's limit
    arena_.make<std::byte>(sizeof(Namespace) + entries.size() * sizeof(Entry));
    Namespace& made = spaces_.emplace_back();
    for (const Entry& entry : entries) {
        if (entry.key.starts_with('_'))
            refuse("a namespace cannot have the attribute " + std::string(entry.key) +
                   ", because it begins with _");
        made.values.emplace_back(entry.key, entry.value);
    }
    Value value;
    value.kind = Kind::Namespace;
    value.space = &made;
    return value;
}

Value Renderer::call_function(Function function, const Call& call) {
    switch (function) {
        case Function::Range: {
            const auto at = [&](std::size_t i) { return whole(call.need(i, ""), "range"); };
            const bool one = call.positional.size() == 1;
            const std::int64_t begin = one ? 0 : at(0), end = at(one ? 0 : 1);
            const std::int64_t step = call.positional.size() == 3 ? at(2) : 1;
            if (step == 0) refuse("the step of range is 0");
            std::vector<Value> items;
            for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
                if (std::ssize(items) == kRangeMax)
                    refuse("range has too many items; allowed: at most 100,000");
                items.push_back(integer(i));
                if (__builtin_add_overflow(i, step, &i)) break;
            }
            work(items.size() * kBytesPerStep);
            return list(items, arena_);
        }
        case Function::Namespace:
        case Function::Dict: {
            std::vector<Entry> entries;
            if (const Value* first = call.find(0, ""); first != nullptr && first->is(Kind::Dict))
                entries.assign(first->dict->entries.begin(), first->dict->entries.end());
            else if (first != nullptr)
                refuse(std::string(call.name) + " accepts only a dict or keyword arguments");
            for (std::size_t i = 0; i < call.keywords.size(); ++i)
                entries.push_back({arena_.copy(call.keywords[i]), call.named[i]});
            if (function == Function::Dict) return dict(std::move(entries), arena_);
            return space(entries);
        }
        case Function::RaiseException:
            refuse("the template refuses the conversation: " +
                   std::string(str(call.need(0, "message"), arena_).substr(0, 500)));
        case Function::StrftimeNow: {
            char made[256];
            std::tm time{};
            gmtime_r(&now_, &time);
            const std::string format(call.text(0, "format", ""));
            return text(std::string(made, std::strftime(made, sizeof made, format.c_str(), &time)));
        }
    }
    return {};
}

}  // namespace roll::chat
