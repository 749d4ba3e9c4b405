#include "worker/formats/pickle.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "common/number.hpp"

namespace roll::formats {

// Interprets the pickle's opcodes as a stack machine.
class PickleMachine {
  public:
    PickleMachine(std::span<const std::byte> bytes, std::size_t values_max)
        : in_(bytes),
          values_max_(values_max),
          memory_left_(kPickleMemoryMin + kPickleMemoryPerByte * bytes.size()) {
        small_.fill(kNoPickle);
    }

    Result<Pickle> run() {
        while (problem_.empty() && !stopped_) step();
        if (!problem_.empty())
            return fail(ErrorCode::Corrupt,
                        "pickle: " + problem_ + " at byte " + std::to_string(at_));
        return std::move(out_);
    }

  private:
    using Kind = PickleKind;
    static constexpr std::size_t kSmallInts = 256;
    // estimated size in bytes of an entry in a std::map
    static constexpr std::size_t kSparseBytes = 64;

    void wrong(std::string what) {
        if (problem_.empty()) problem_ = std::move(what);
    }

    // Input: bytes of the pickle -----------------------------------------------------------------
    std::string_view take(std::uint64_t count) {
        if (count > in_.size() - at_) {
            wrong("is truncated");
            return {};
        }
        const auto* const begin = reinterpret_cast<const char*>(in_.data()) + at_;
        at_ += count;
        return {begin, static_cast<std::size_t>(count)};
    }
    std::uint64_t number(std::size_t bytes) {
        const std::string_view raw = take(bytes);
        std::uint64_t value = 0;
        if (raw.size() == bytes) std::memcpy(&value, raw.data(), bytes);
        return value;
    }
    std::string_view line() {
        const auto* const begin = reinterpret_cast<const char*>(in_.data()) + at_;
        const std::string_view rest(begin, in_.size() - at_);
        const std::size_t end = rest.find('\n');
        if (end == std::string_view::npos) {
            wrong("is truncated");
            return {};
        }
        at_ += end + 1;
        return rest.substr(0, end);
    }

    // Subtracts `bytes` from the memory that parsing may still allocate.
    void charge(std::size_t bytes) {
        if (bytes > memory_left_)
            wrong("needs more memory than Roll allows for a pickle of this size");
        else
            memory_left_ -= bytes;
    }

    static PickleNode of(Kind kind, std::int64_t integer = 0) {
        PickleNode node;
        node.kind = kind;
        node.integer = integer;
        return node;
    }

    // Stack -------------------------------------------------------------------------------------
    void push(PickleNode node) {
        if (out_.nodes_.size() >= values_max_)
            wrong("has more than " + std::to_string(values_max_) + " values");
        charge(sizeof(PickleNode) + sizeof(PickleId) * node.items.capacity() +
               (node.text.size() < sizeof node.text ? 0 : node.text.size()));
        out_.nodes_.push_back(std::move(node));
        stack_.push_back(static_cast<PickleId>(out_.nodes_.size() - 1));
    }
    void push(Kind kind) { push(of(kind)); }
    // Pushes None, a boolean or a small number. All uses of a value share one node, because such
    // values are immutable.
    void push_shared(Kind kind, std::size_t value) {
        PickleId& id = small_[kind == Kind::Int ? value : kSmallInts + value];
        if (id != kNoPickle) return stack_.push_back(id);
        push(of(kind, static_cast<std::int64_t>(value)));
        id = stack_.back();
    }
    void push_none() { push_shared(Kind::None, 2); }
    void push_bool(bool value) { push_shared(Kind::Bool, value ? 1 : 0); }
    void push_int(std::int64_t value) {
        if (value >= 0 && value < static_cast<std::int64_t>(kSmallInts))
            return push_shared(Kind::Int, static_cast<std::size_t>(value));
        push(of(Kind::Int, value));
    }
    void push_text(Kind kind, std::string_view text) {
        PickleNode node = of(kind);
        node.text = text;
        push(std::move(node));
    }
    void push_items(Kind kind, std::vector<PickleId> items) {
        PickleNode node = of(kind);
        node.items = std::move(items);
        push(std::move(node));
    }
    PickleId pop() {
        if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size())) {
            wrong("pops an empty stack");
            push(Kind::None);
        }
        const PickleId id = stack_.back();
        stack_.pop_back();
        return id;
    }
    std::vector<PickleId> pop_count(std::size_t count) {
        std::vector<PickleId> items(count);
        for (std::size_t i = count; i-- > 0;) items[i] = pop();
        return items;
    }
    std::vector<PickleId> pop_to_mark() {
        if (marks_.empty()) {
            wrong("has no mark");
            return {};
        }
        const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
        std::vector<PickleId> items(begin, stack_.end());
        stack_.erase(begin, stack_.end());
        marks_.pop_back();
        return items;
    }
    // Adds items to the container on top of the stack. If the top is a Call that makes a container
    // (an OrderedDict or a subclass of list), the items become contents of the Call.
    void add_to_top(Kind kind, const std::vector<PickleId>& items) {
        PickleId target = pop();
        stack_.push_back(target);
        if (out_.nodes_[target].kind == Kind::Call) {
            if (out_.nodes_[target].contents == kNoPickle) {
                push(kind);
                const PickleId contents = pop();
                out_.nodes_[target].contents = contents;
            }
            target = out_.nodes_[target].contents;
        }
        if (out_.nodes_[target].kind != kind)
            return wrong("adds items to a value that is not a container");
        if (kind == Kind::Dict && items.size() % 2 != 0) return wrong("has a key without a value");
        auto& into = out_.nodes_[target].items;
        const std::size_t before = into.capacity();
        into.insert(into.end(), items.begin(), items.end());
        charge(sizeof(PickleId) * (into.capacity() - before));
    }
    void memoize(std::uint64_t index) {
        if (stack_.empty()) return wrong("memoizes a value from an empty stack");
        if (memoized() >= values_max_)
            return wrong("memoizes more than " + std::to_string(values_max_) + " values");
        if (index < memo_.size()) {
            memo_[index] = stack_.back();
        } else if (index == memo_.size()) {
            memo_.push_back(stack_.back());
        } else {
            charge(kSparseBytes);
            sparse_memo_[index] = stack_.back();
        }
    }
    void recall(std::uint64_t index) {
        if (index < memo_.size()) return stack_.push_back(memo_[index]);
        const auto found = sparse_memo_.find(index);
        if (found == sparse_memo_.end()) return wrong("reads a value that was not memoized");
        stack_.push_back(found->second);
    }
    std::size_t memoized() const { return memo_.size() + sparse_memo_.size(); }

    // Values ------------------------------------------------------------------------------------
    void push_long(std::string_view raw) {
        if (raw.size() > 8) return push_text(Kind::Bytes, raw);
        std::uint64_t value = !raw.empty() && (raw.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
        if (!raw.empty()) std::memcpy(&value, raw.data(), raw.size());
        push_int(static_cast<std::int64_t>(value));
    }
    void push_decimal(std::string_view text) {
        if (text == "00" || text == "01") return push_bool(text[1] == '1');
        if (text.ends_with('L')) text.remove_suffix(1);
        const auto value = parse_number<std::int64_t>(text);
        if (!value) return wrong("has an invalid number");
        push_int(*value);
    }
    void push_global(std::string_view module, std::string_view name) {
        push_text(Kind::Global, std::string(module) + " " + std::string(name));
    }
    void push_stack_global() {
        const std::vector<PickleId> parts = pop_count(2);
        const PickleNode& module = out_.nodes_[parts[0]];
        const PickleNode& name = out_.nodes_[parts[1]];
        if (module.kind != Kind::Text || name.kind != Kind::Text)
            return wrong("has a global without a name");
        push_global(std::string(module.text), std::string(name.text));
    }
    void build() {
        const PickleId state = pop();
        const PickleId top = pop();
        stack_.push_back(top);
        // only a Call node has a field for the argument of BUILD
        if (out_.nodes_[top].kind != Kind::Call) return;
        out_.nodes_[top].state = state;
    }
    void put_double() {
        std::uint64_t bits = number(8);
        bits = __builtin_bswap64(bits);
        PickleNode node = of(Kind::Float);
        node.number = std::bit_cast<double>(bits);
        push(std::move(node));
    }

    void step() {
        const std::string_view raw = take(1);
        if (raw.empty()) return;
        const char op = raw[0];
        if (!simple(op) && !sized(op) && !container(op) && !object(op))
            wrong("has an opcode that Roll does not read");
    }

    bool simple(char op) {
        switch (op) {
            case '.': stop(); return true;
            case '\x80': number(1); return true;  // PROTO
            case '\x95': number(8); return true;  // FRAME
            case 'N': push_none(); return true;
            case '\x88': push_bool(true); return true;   // NEWTRUE
            case '\x89': push_bool(false); return true;  // NEWFALSE
            case 'J': push_int(static_cast<std::int32_t>(number(4))); return true;
            case 'K': push_int(static_cast<std::int64_t>(number(1))); return true;
            case 'M': push_int(static_cast<std::int64_t>(number(2))); return true;
            case 'I':
            case 'L': push_decimal(line()); return true;
            case 'G': put_double(); return true;
            case '(': marks_.push_back(stack_.size()); return true;
            case '0': pop(); return true;
            case '1': pop_to_mark(); return true;
            case '2':
                stack_.push_back(pop());
                stack_.push_back(stack_.back());
                return true;
            case 'q': memoize(number(1)); return true;
            case 'r': memoize(number(4)); return true;
            case '\x94': memoize(memoized()); return true;
            case 'h': recall(number(1)); return true;
            case 'j': recall(number(4)); return true;
            default: return false;
        }
    }

    bool sized(char op) {
        switch (op) {
            case '\x8a': push_long(take(number(1))); return true;               // LONG1
            case '\x8b': push_long(take(number(4))); return true;               // LONG4
            case 'X': push_text(Kind::Text, take(number(4))); return true;      // BINUNICODE
            case '\x8c': push_text(Kind::Text, take(number(1))); return true;   // SHORT_BINUNICODE
            case '\x8d': push_text(Kind::Text, take(number(8))); return true;   // BINUNICODE8
            case 'U': push_text(Kind::Text, take(number(1))); return true;      // SHORT_BINSTRING
            case 'T': push_text(Kind::Text, take(number(4))); return true;      // BINSTRING
            case 'C': push_text(Kind::Bytes, take(number(1))); return true;     // SHORT_BINBYTES
            case 'B': push_text(Kind::Bytes, take(number(4))); return true;     // BINBYTES
            case '\x8e':                                                        // BINBYTES8
            case '\x96': push_text(Kind::Bytes, take(number(8))); return true;  // BYTEARRAY8
            default: return false;
        }
    }

    bool container(char op) {
        switch (op) {
            case ']': push(Kind::List); return true;
            case ')': push(Kind::Tuple); return true;
            case '}': push(Kind::Dict); return true;
            case '\x8f': push(Kind::Set); return true;
            case '\x91': push_items(Kind::Set, pop_to_mark()); return true;  // FROZENSET
            case 't': push_items(Kind::Tuple, pop_to_mark()); return true;
            case '\x85': push_items(Kind::Tuple, pop_count(1)); return true;
            case '\x86': push_items(Kind::Tuple, pop_count(2)); return true;
            case '\x87': push_items(Kind::Tuple, pop_count(3)); return true;
            case 'l': push_items(Kind::List, pop_to_mark()); return true;
            case 'd': push_dict(pop_to_mark()); return true;
            case 'a': add_to_top(Kind::List, pop_count(1)); return true;
            case 'e': add_to_top(Kind::List, pop_to_mark()); return true;
            case 's': add_to_top(Kind::Dict, pop_count(2)); return true;
            case 'u': add_to_top(Kind::Dict, pop_to_mark()); return true;
            case '\x90': add_to_top(Kind::Set, pop_to_mark()); return true;  // ADDITEMS
            default: return false;
        }
    }

    bool object(char op) {
        switch (op) {
            case 'c': push_class(); return true;
            case '\x93': push_stack_global(); return true;
            case 'R':                                                        // REDUCE
            case '\x81': push_items(Kind::Call, pop_count(2)); return true;  // NEWOBJ
            case '\x92': push_items(Kind::Call, pop_count(3)); return true;  // NEWOBJ_EX
            case 'b': build(); return true;
            case 'Q': push_items(Kind::Persistent, pop_count(1)); return true;
            default: return false;
        }
    }

    void push_class() {
        const std::string_view module = line();
        const std::string_view name = line();
        push_global(module, name);
    }
    void push_dict(std::vector<PickleId> items) {
        if (items.size() % 2 != 0) return wrong("has a key without a value");
        push_items(Kind::Dict, std::move(items));
    }
    void stop() {
        out_.root_ = pop();
        stopped_ = true;
    }

    std::span<const std::byte> in_;
    std::size_t at_ = 0;
    Pickle out_;
    std::size_t values_max_;
    std::size_t memory_left_;
    std::vector<PickleId> stack_;
    std::vector<std::size_t> marks_;
    std::vector<PickleId> memo_;                     // memo entries 0, 1, 2, ... without a gap
    std::map<std::uint64_t, PickleId> sparse_memo_;  // memo entries with other indices
    // the node that push_shared() made for each small value; kNoPickle if there is none yet
    std::array<PickleId, kSmallInts + 3> small_ = {};
    std::string problem_;
    bool stopped_ = false;
};

Result<Pickle> Pickle::parse(std::span<const std::byte> bytes, std::size_t values_max) {
    if (bytes.size() > kPickleBytesMax)
        return fail(ErrorCode::Corrupt, "pickle: the size is " + std::to_string(bytes.size()) +
                                            " bytes; allowed: at most " +
                                            std::to_string(kPickleBytesMax));
    return PickleMachine(bytes, values_max).run();
}

const PickleNode* Pickle::arguments_of(PickleId id, std::string_view module_and_name) const {
    const PickleNode& node = at(id);
    if (node.kind != PickleKind::Call || !is_global(node.items[0], module_and_name) ||
        !is(node.items[1], PickleKind::Tuple))
        return nullptr;
    return &at(node.items[1]);
}

const std::vector<PickleId>* Pickle::entries_of(PickleId id) const {
    const PickleNode& node = at(id);
    if (node.kind == PickleKind::Dict) return &node.items;
    const PickleNode* arguments = arguments_of(id, "collections OrderedDict");
    if (arguments == nullptr || !arguments->items.empty()) return nullptr;
    // The OrderedDict has no entries. Return the list of its arguments, because it is empty, too.
    if (node.contents == kNoPickle) return &at(node.items[1]).items;
    return is(node.contents, PickleKind::Dict) ? &at(node.contents).items : nullptr;
}

const PickleId* Pickle::find(PickleId dict, std::string_view key) const {
    const std::vector<PickleId>* entries = entries_of(dict);
    if (entries == nullptr) return nullptr;
    for (std::size_t i = 0; i + 1 < entries->size(); i += 2) {
        const PickleNode& node = at((*entries)[i]);
        if (node.kind == PickleKind::Text && node.text == key) return &(*entries)[i + 1];
    }
    return nullptr;
}

}  // namespace roll::formats
