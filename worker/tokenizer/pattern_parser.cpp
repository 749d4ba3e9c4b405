// Implements Pattern::compile() as a recursive-descent parser.
#include <algorithm>
#include <map>
#include <string>

#include "worker/tokenizer/pattern.hpp"

namespace roll::tokenizer {
namespace {

constexpr int kDepthMax = 32;
constexpr std::uint32_t kMany = 0xFFFFFFFF;
constexpr std::uint32_t kCountMax = 1000;
// limit on the number of groups: each group may double the time of a failed match
constexpr int kGroupsMax = 16;

// Characters that the tokenizers package treats as word characters in \w, but not in [\w].
constexpr std::pair<char32_t, char32_t> kLatinNumbers[] = {
    {0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}};

bool is_letter(char32_t code) { return (code | 0x20) >= 'a' && (code | 0x20) <= 'z'; }

Properties category_named(std::string_view name) {
    static const std::map<std::string_view, Properties> groups{
        {"L", kLetter}, {"M", kMark},      {"N", kNumber},    {"P", kPunctuation},
        {"S", kSymbol}, {"Z", 0x7U << 22}, {"C", 0x1FU << 25}};
    if (const auto group = groups.find(name); group != groups.end()) return group->second;
    constexpr std::string_view kNames =
        "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn";
    const std::size_t at = name.size() == 2 ? kNames.find(name) : std::string_view::npos;
    return at == std::string_view::npos ? 0 : 1U << at / 3;
}

}  // namespace

class PatternParser {
  public:
    explicit PatternParser(std::string_view expression) : text_(expression) {}

    Result<Pattern> parse() {
        if (valid_prefix(text_) != text_.size()) return refuse("invalid UTF-8");
        ROLL_TRY(const std::uint32_t root, alternatives(add({}), false, 0));
        if (at_ != text_.size()) return refuse("a ) without (");
        pattern_.root_ = root;
        pattern_.index_first_bytes();
        return std::move(pattern_);
    }

  private:
    using Node = PatternNode;
    using Kind = PatternNode::Kind;

    tl::unexpected<Error> refuse(const std::string& what) const {
        return fail(ErrorCode::InvalidArgument, "the regular expression " + std::string(text_) +
                                                    " has " + what + ", which is not supported");
    }
    bool more() const { return at_ < text_.size(); }
    bool eat(std::string_view token) {
        if (text_.substr(at_, token.size()) != token) return false;
        at_ += token.size();
        return true;
    }
    char32_t character() {
        const char* at = text_.data() + at_;
        const char32_t code = next_code_point(at);
        at_ = static_cast<std::size_t>(at - text_.data());
        return code;
    }
    std::uint32_t add(Node node) {
        pattern_.nodes_.push_back(std::move(node));
        return static_cast<std::uint32_t>(pattern_.nodes_.size() - 1);
    }

    // Parses the alternatives of a Choice. Each branch continues at node `after`.
    Result<std::uint32_t> alternatives(std::uint32_t after, bool fold, int depth) {
        if (depth > kDepthMax) return refuse("groups nested too deeply");
        std::vector<std::uint32_t> branches;
        do {
            ROLL_TRY(const std::uint32_t branch, sequence(after, fold, depth));
            branches.push_back(branch);
        } while (eat("|"));
        return add({.kind = Kind::Choice, .branches = std::move(branches)});
    }

    // Parses a sequence that continues at node `after`. Its first node is a Jump, because an empty
    // sequence needs a node, too.
    Result<std::uint32_t> sequence(std::uint32_t after, bool fold, int depth) {
        const std::uint32_t start = add({.kind = Kind::Jump});
        std::uint32_t last = start;
        while (more() && text_[at_] != '|' && text_[at_] != ')') {
            std::uint32_t first = 0;
            std::uint32_t tail = 0;
            if (text_[at_] == '(') {
                tail = add({.kind = Kind::Jump});
                ROLL_TRY(first, group(tail, fold, depth));
            } else {
                ROLL_TRY(first, characters(fold));
                tail = first;
            }
            pattern_.nodes_[last].next = first;
            last = tail;
        }
        pattern_.nodes_[last].next = after;
        return start;
    }

    Result<std::uint32_t> group(std::uint32_t tail, bool fold, int depth) {
        if (++groups_ > kGroupsMax) return refuse("more than 16 groups");
        if (eat("(?=") || eat("(?!")) {
            const bool negative = text_[at_ - 1] == '!';
            ROLL_TRY(const std::uint32_t branch, alternatives(add({}), fold, depth + 1));
            if (!eat(")")) return refuse("a ( without )");
            return add(
                {.kind = Kind::Look, .negative = negative, .next = tail, .branches = {branch}});
        }
        const bool ignore_case = eat("(?i:");
        if (!ignore_case && !eat("(?:") && !(eat("(") && !eat("?")))
            return refuse("a group of the kind (?" + std::string(text_.substr(at_, 1)));
        ROLL_TRY(const std::uint32_t choice, alternatives(tail, fold || ignore_case, depth + 1));
        if (!eat(")")) return refuse("a ( without )");
        if (eat("?")) pattern_.nodes_[choice].branches.push_back(tail);
        if (more() && std::string_view("?*+{").find(text_[at_]) != std::string_view::npos)
            return refuse("a repeated group");
        return choice;
    }

    // Parses one character or one set of characters, and the quantifier that follows.
    Result<std::uint32_t> characters(bool fold) {
        CharacterSet set;
        if (eat("[")) {
            ROLL_TRY(set, bracket(fold));
        } else if (eat(".")) {
            set.ranges = {{'\n', '\n'}};
            set.negated = true;
        } else if (std::string_view("^$*+?{}").find(text_[at_]) != std::string_view::npos) {
            return refuse("a " + std::string(1, text_[at_]) + " here");
        } else {
            ROLL_TRY_VOID(item(set, fold, false));
        }
        Node node{.kind = Kind::Set, .set = finish(std::move(set))};
        ROLL_TRY_VOID(count(node));
        return add(std::move(node));
    }

    Result<void> count(Node& node) {
        if (eat("?")) {
            node.min = 0;
        } else if (eat("*")) {
            node.min = 0;
            node.max = kMany;
        } else if (eat("+")) {
            node.max = kMany;
        } else if (eat("{")) {
            ROLL_TRY(node.min, number());
            node.max = node.min;
            if (eat(",")) {
                node.max = kMany;
                if (more() && text_[at_] != '}') {
                    ROLL_TRY(node.max, number());
                }
            }
            if (!eat("}") || node.max < node.min) return refuse("an invalid count");
            if (more() && text_[at_] == '+') return refuse("a repeated count");
        } else {
            return {};
        }
        node.possessive = eat("+");
        if (more() && std::string_view("?*+{").find(text_[at_]) != std::string_view::npos)
            return refuse("a quantifier that is followed by ?, *, + or {");
        return {};
    }

    Result<std::uint32_t> number() {
        std::uint32_t value = 0;
        const std::size_t start = at_;
        while (more() && text_[at_] >= '0' && text_[at_] <= '9' && value <= kCountMax)
            value = value * 10 + static_cast<std::uint32_t>(text_[at_++] - '0');
        if (at_ == start || value > kCountMax)
            return refuse("a quantifier {m,n} with a count that is not a number from 0 to 1000");
        return value;
    }

    Result<CharacterSet> bracket(bool fold) {
        CharacterSet set;
        set.negated = eat("^");
        for (bool first = true; first || !eat("]"); first = false) {
            if (!more()) return refuse("a [ without ]");
            if (text_[at_] == '[' || text_.substr(at_, 2) == "&&")
                return refuse("a character set within a character set");
            ROLL_TRY_VOID(item(set, fold, true));
        }
        return set;
    }

    // Parses one item and adds it to the set. An item is a character, a class or, in brackets, a
    // range.
    Result<void> item(CharacterSet& set, bool fold, bool in_bracket) {
        ROLL_TRY(const char32_t first, member(set, in_bracket));
        if (first == kClass) return {};
        char32_t last = first;
        if (in_bracket && at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
            ++at_;
            ROLL_TRY(last, member(set, in_bracket));
            if (last == kClass || last < first) return refuse("an invalid range");
        }
        set.ranges.emplace_back(first, last);
        if (fold) return add_other_cases(set, first, last);
        return {};
    }

    Result<void> add_other_cases(CharacterSet& set, char32_t first, char32_t last) {
        if (last > 127) return refuse("case-insensitive letters outside ASCII");
        for (char32_t code = first; code <= last; ++code) {
            if (!is_letter(code)) continue;
            set.ranges.emplace_back(code ^ 0x20, code ^ 0x20);
            // U+017F, the long s, also matches, because its upper case is S.
            if ((code | 0x20) == 's') set.ranges.emplace_back(0x17F, 0x17F);
            // U+212A, the Kelvin sign, also matches, because its lower case is k.
            if ((code | 0x20) == 'k') set.ranges.emplace_back(0x212A, 0x212A);
        }
        return {};
    }

    // Returns the next character. If the next item is a class, adds the class to the set and
    // returns kClass.
    Result<char32_t> member(CharacterSet& set, bool in_bracket) {
        if (!eat("\\")) return character();
        if (!more()) return refuse("a \\ at its end");
        const char32_t code = character();
        switch (code) {
            case 's': set.properties |= kSpace; return kClass;
            case 'w':
                set.properties |= kWord;
                for (const auto& numbers : kLatinNumbers)
                    if (!in_bracket) set.ranges.push_back(numbers);
                return kClass;
            case 'd': set.properties |= bit(Category::Nd); return kClass;
            case 'p': return category(set);
            case 'r': return '\r';
            case 'n': return '\n';
            case 't': return '\t';
            case 'S':
            case 'P':
                if (in_bracket) break;
                set.negated = true;
                if (code == 'P') return category(set);
                set.properties |= kSpace;
                return kClass;
            default:
                if (code < 128 && !is_letter(code) && (code < '0' || code > '9')) return code;
        }
        std::string name = "\\";
        append_utf8(name, code);
        return refuse(name);
    }

    Result<char32_t> category(CharacterSet& set) {
        const std::size_t close = text_.find('}', at_);
        if (!eat("{") || close == std::string_view::npos) return refuse("\\p without {}");
        const std::string name(text_.substr(at_, close - at_));
        const Properties properties = category_named(name);
        if (properties == 0) return refuse("\\p{" + name + "}");
        set.properties |= properties;
        at_ = close + 1;
        return kClass;
    }

    std::uint32_t finish(CharacterSet set) {
        for (char32_t code = 0; code < 128; ++code) {
            bool member = (pattern_.table_->of(code) & set.properties) != 0;
            for (const auto& [first, last] : set.ranges) member |= code >= first && code <= last;
            set.ascii[code] = member != set.negated;
        }
        std::erase_if(set.ranges, [](const auto& range) { return range.second < 128; });
        pattern_.sets_.push_back(std::move(set));
        return static_cast<std::uint32_t>(pattern_.sets_.size() - 1);
    }

    static constexpr char32_t kClass = 0xFFFFFFFF;

    std::string_view text_;
    std::size_t at_ = 0;
    int groups_ = 0;
    Pattern pattern_;
};

Result<Pattern> Pattern::compile(std::string_view expression) {
    return PatternParser(expression).parse();
}

Pattern Pattern::literal(std::string_view text) {
    std::string expression;
    for (const char byte : text) {
        if (std::string_view(R"(\.+*?()|[]{}^$)").find(byte) != std::string_view::npos)
            expression += '\\';
        expression += byte;
    }
    return *PatternParser(expression).parse();
}

}  // namespace roll::tokenizer
