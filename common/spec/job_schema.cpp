#include "common/spec/schema.hpp"

namespace roll::spec {
namespace {

// Builds a value as nlohmann's own parser does. There a mapping that grows copies all that is in
// it, since its keys are const and cannot be moved: more than half of what parsing the schema took.
class Builder : public nlohmann::json_sax<OrderedJson> {
  public:
    OrderedJson root;

    bool null() override { return put(nullptr); }
    bool boolean(bool value) override { return put(value); }
    bool number_integer(number_integer_t value) override { return put(value); }
    bool number_unsigned(number_unsigned_t value) override { return put(value); }
    bool number_float(number_float_t value, const string_t&) override { return put(value); }
    bool string(string_t& text) override { return put(std::move(text)); }
    bool binary(binary_t&) override { return false; }
    bool start_object(std::size_t) override { return open(OrderedJson::object()); }
    bool start_array(std::size_t) override { return open(OrderedJson::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t& name) override {
        key_ = std::move(name);
        return true;
    }
    bool parse_error(std::size_t, const std::string&, const OrderedJson::exception&) override {
        return false;
    }

  private:
    using Fields = OrderedJson::object_t;
    using Pairs = std::vector<Fields::value_type>;

    // No key comes twice: the test compares with what the parser builds.
    static OrderedJson* append(Fields& fields, std::string key, OrderedJson value) {
        if (fields.size() == fields.capacity()) {
            Fields larger;
            larger.reserve(2 * fields.size() + 4);
            for (auto& [name, one] : fields)
                static_cast<Pairs&>(larger).emplace_back(name, std::move(one));
            fields.swap(larger);
        }
        return &static_cast<Pairs&>(fields).emplace_back(std::move(key), std::move(value)).second;
    }
    OrderedJson* add(OrderedJson value) {
        if (open_.empty()) return &(root = std::move(value));
        OrderedJson& into = *open_.back();
        if (into.is_array()) return &into.emplace_back(std::move(value));
        return append(into.get_ref<Fields&>(), std::move(key_), std::move(value));
    }
    bool put(OrderedJson value) {
        add(std::move(value));
        return true;
    }
    bool open(OrderedJson value) {
        open_.push_back(add(std::move(value)));
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }
    std::vector<OrderedJson*> open_{};
    std::string key_{};
};

OrderedJson parse_schema(std::string_view text) {
    Builder builder;
    OrderedJson::sax_parse(text, &builder);
    return std::move(builder.root);
}

}  // namespace

const OrderedJson& job_schema() {
    // Never destroyed: that takes a third of what parsing it does.
    static const auto* const kSchema = new OrderedJson(parse_schema(job_schema_text()));
    return *kSchema;
}

}  // namespace roll::spec
