// Renders a parsed template once.
#pragma once

#include <cstdint>
#include <ctime>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "worker/chat/call.hpp"
#include "worker/chat/syntax.hpp"

namespace roll::chat {

struct Limits {
    std::int64_t steps = 20'000'000;
    std::size_t output = std::size_t{16} << 20U;
    std::size_t memory = std::size_t{256} << 20U;
};

// A range of bytes of the output.
struct Span {
    std::size_t begin = 0, end = 0;
    bool operator==(const Span&) const = default;
};

// A place at which the text of a conversation may be cut: the end of one of its messages.
struct Stop {
    std::size_t size = 0;  // number of bytes of the text up to here
    // the text that would follow if the conversation ended here: without and with
    // add_generation_prompt
    std::string end = {}, prompt = {};
};

class Renderer {
  public:
    // `memory` must also hold the values that are passed to define(). All references must outlive
    // the renderer.
    Renderer(const Syntax& syntax, Arena& memory, const Limits& limits, std::time_t now);

    void define(std::string_view name, const Value& value);
    // Lets run() add a stop for each message. If the text before a stop depends on later messages,
    // run() removes all stops.
    void record(std::vector<Stop>& stops);
    // Renders the template. Throws Failure if rendering fails. May be called only once.
    void run();
    int line() const { return line_; }
    std::string take_output() { return std::move(out_); }
    std::vector<Span> take_spans() { return std::move(spans_); }

    // The functions from here to test() are for filters, tests and methods.
    Arena& arena() { return arena_; }
    // Counts work on `amount` bytes: one step, and one more for each kBytesPerStep bytes. Throws
    // Failure if the total number of steps exceeds the limit.
    void work(std::size_t amount);
    Value text(const std::string& made) { return string(arena_.copy(made)); }
    Value item(const Value& value, const Value& key);
    Value filter(std::string_view name, const Call& call);
    bool test(std::string_view name, const Call& call);

  private:
    enum class Flow { Next, Break, Continue };
    struct Variable {
        int name;
        Value value;
    };
    // While an object of this class exists, the renderer's nesting depth is one level higher.
    class Deeper {
      public:
        explicit Deeper(Renderer& renderer);
        Deeper(const Deeper&) = delete;
        Deeper& operator=(const Deeper&) = delete;
        ~Deeper() { --renderer_.depth_; }

      private:
        Renderer& renderer_;
    };

    Flow run(const std::vector<Statement>& statements);
    Flow run(const Statement& statement);
    Flow run_loop(const Statement& statement);
    std::vector<Value> items_of(const Statement& statement);
    void add_stop();
    void drop_stops();
    void run_generation(const Statement& statement);
    void assign(const Statement& statement);
    std::string_view capture(const std::vector<Statement>& body);
    void write(const Value& value);
    void check_output() const;

    void set(int name, const Value& value);
    void bind(const std::vector<int>& targets, const Value& value);
    const Value* find(int name) const;

    Value eval(const Expression& expr);
    Value eval_name(const Expression& expr);
    Value eval_chain(const Expression& expr);
    Value eval_call(const Expression& expr);
    Value eval_builtin(const Expression& expr);
    Value eval_dict(const Expression& expr);
    Value eval_slice(const Expression& expr);
    Value eval_list(const Expression& expr);
    Value binary(const Expression& expr);
    bool contains(const Value& whole, const Value& part);
    Value attribute(const Value& value, std::string_view name);
    Value loop_attribute(const Loop& loop, std::string_view name);
    Value method(const Value& self, std::string_view name);
    Value invoke(const Value& callee, const Call& call);
    Value call_macro(const Statement& macro, const Call& call);
    Value call_function(Function function, const Call& call);
    Value space(const std::vector<Entry>& entries);

    const Syntax& syntax_;
    Arena& arena_;
    const Limits& limits_;
    std::time_t now_;
    int loop_name_;
    std::string out_;
    std::vector<Span> spans_;
    std::vector<Stop>* stops_ = nullptr;  // where stops are recorded; null: nowhere
    std::vector<Value> globals_;          // values of variables, by their index in Syntax::names
    std::vector<bool> defined_;
    std::vector<Variable> locals_;
    std::deque<Namespace> spaces_;
    // indices in locals_: start of the current macro, start of the current scope
    std::size_t macro_begin_ = 0, scope_begin_ = 0;
    int scopes_ = 0;  // number of open scopes; 0 at the top level of the template
    int captures_ = 0, depth_ = 0, line_ = 0;
    // bytes of output that capture() has set aside; they count against the limit of the output
    std::size_t held_ = 0;
    std::int64_t steps_ = 0;
};

// Calls a method of a string, a list or a dict. Fails if Roll does not support the method.
Value call_method(Renderer& renderer, const Value& self, const Call& call);
// Returns true if the value's Python type has a method `name` that templates may call.
bool has_method(const Value& self, std::string_view name);
// Returns text[begin:end:step] or list[begin:end:step].
Value slice(Renderer& renderer, const Value& value, const Value& begin, const Value& end,
            const Value& step);
// Computes a binary operation on numbers, strings or lists.
Value arithmetic(Renderer& renderer, Op op, const Value& a, const Value& b);

}  // namespace roll::chat
