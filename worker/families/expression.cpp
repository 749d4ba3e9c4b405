#include "worker/families/expression.hpp"

#include <cctype>
#include <string>

#include "common/number.hpp"

namespace roll::families {
namespace {

constexpr int kDepthMax = 16;

class Parser {
  public:
    Parser(std::string_view text, const Json& values) : text_(text), rest_(text), values_(values) {}

    Result<std::int64_t> parse() {
        ROLL_TRY(const std::int64_t value, sum(0));
        skip();
        if (!rest_.empty())
            return wrong("has unexpected text at the end: \"" + std::string(rest_) + "\"");
        return value;
    }

  private:
    tl::unexpected<Error> wrong(const std::string& what) const {
        return fail(ErrorCode::InvalidArgument, "\"" + std::string(text_) + "\": " + what);
    }
    void skip() {
        while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    }
    bool take(char c) {
        skip();
        if (rest_.empty() || rest_.front() != c) return false;
        rest_.remove_prefix(1);
        return true;
    }

    Result<std::int64_t> sum(int depth) {
        ROLL_TRY(std::int64_t value, product(depth));
        for (;;) {
            const bool plus = take('+');
            if (!plus && !take('-')) return value;
            ROLL_TRY(const std::int64_t next, product(depth));
            if (plus ? __builtin_add_overflow(value, next, &value)
                     : __builtin_sub_overflow(value, next, &value))
                return wrong("has a value that does not fit into 64 bits");
        }
    }

    Result<std::int64_t> product(int depth) {
        ROLL_TRY(std::int64_t value, factor(depth));
        for (;;) {
            const bool times = take('*');
            if (!times && !take('/')) return value;
            ROLL_TRY(const std::int64_t next, factor(depth));
            if (times) {
                if (__builtin_mul_overflow(value, next, &value))
                    return wrong("has a value that does not fit into 64 bits");
            } else {
                if (next <= 0 || value % next != 0)
                    return wrong(std::to_string(value) + " is not divisible by " +
                                 std::to_string(next));
                value /= next;
            }
        }
    }

    Result<std::int64_t> factor(int depth) {
        if (depth > kDepthMax) return wrong("nests too deeply");
        if (take('(')) {
            ROLL_TRY(const std::int64_t value, sum(depth + 1));
            if (!take(')')) return wrong("needs a )");
            return value;
        }
        std::size_t length = 0;
        while (length < rest_.size() &&
               (std::isalnum(static_cast<unsigned char>(rest_[length])) != 0 ||
                rest_[length] == '_' || rest_[length] == '.'))
            ++length;
        const std::string word(rest_.substr(0, length));
        rest_.remove_prefix(length);
        if (word.empty()) return wrong("lacks a name or a number");
        if (const auto number = parse_number<std::int64_t>(word)) return *number;
        const Json* const found = value_at(values_, word);
        if (found != nullptr && found->is_array()) return static_cast<std::int64_t>(found->size());
        if (found == nullptr || !found->is_number_integer())
            return wrong("the config needs a whole number or a list for the key " + word);
        return found->get<std::int64_t>();
    }

    std::string_view text_;
    std::string_view rest_;
    const Json& values_;
};

}  // namespace

namespace {

// Returns the value at a path such as "a.b" in nested objects; the value may be null. Returns
// nullptr if there is no such path.
const Json* found_at(const Json& config, const std::string& path) {
    const Json* value = &config;
    std::size_t begin = 0;
    while (begin <= path.size()) {
        const std::size_t end = std::min(path.find('.', begin), path.size());
        if (!value->is_object()) return nullptr;
        const auto found = value->find(path.substr(begin, end - begin));
        if (found == value->end()) return nullptr;
        value = &*found;
        begin = end + 1;
    }
    return value;
}

}  // namespace

const Json* value_at(const Json& config, const std::string& path) {
    const Json* value = found_at(config, path);
    return value == nullptr || value->is_null() ? nullptr : value;
}

bool is_null_at(const Json& config, const std::string& path) {
    const Json* value = found_at(config, path);
    return value != nullptr && value->is_null();
}

Result<std::int64_t> evaluate(std::string_view expression, const Json& values) {
    return Parser(expression, values).parse();
}

}  // namespace roll::families
