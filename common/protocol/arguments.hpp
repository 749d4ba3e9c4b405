// Reads, writes and describes the arguments and the replies of operations. Each set of arguments
// and each reply is a struct. A function fields() lists the struct's members once:
//
//   template <class V> void fields(V& v, SecretNameArgs& a) {
//       v.needs("name", a.name, "name of the secret");
//       v("user", a.user, "owner; only for the operator");
//   }
//
// A member is a bool, a number, a string, a list of these, an optional or a Json value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/protocol/operation.hpp"

namespace roll::protocol {

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

// The allowed values of a field, if the field's type allows more values. roll-web refuses other
// values. rolld itself limits numbers and ignores unknown names, because a newer client may send
// them.
struct Allowed {
    std::optional<std::int64_t> minimum{}, maximum{};
    std::span<const std::string_view> items{};  // values that the elements of a list may have
};

// A visitor that reads each field. If an optional field is missing or null, its member keeps its
// value.
class FieldReader {
  public:
    FieldReader(const Json& json, const char* op) : reader_(json, op) {}
    template <class T>
    void needs(const char* name, T& value, const char*) {
        if constexpr (std::is_same_v<T, Json>)
            value = reader_.raw(name);
        else
            value = reader_.get<T>(name);
    }
    template <class T>
    void operator()(const char* name, T& value, const char*, const Allowed& = {}) {
        if constexpr (std::is_same_v<T, Json>) {
            value = reader_.raw(name);
        } else if constexpr (is_optional<T>) {
            if (!reader_.raw(name).is_null()) value = reader_.get<typename T::value_type>(name);
        } else {
            value = reader_.get_or<T>(name, std::move(value));
        }
    }
    // Fails with InvalidArgument if a field was missing or had the wrong type. If `strict`, also
    // fails if there are unknown fields.
    Result<void> finish(bool strict);

  private:
    JsonReader reader_;
};

// A visitor that writes each field. If `brief` is true, it leaves out each optional field whose
// value is the initial value of its type. A std::optional without a value is always left out.
class FieldWriter {
  public:
    explicit FieldWriter(bool brief) : brief_(brief) {}
    template <class T>
    void needs(const char* name, T& value, const char*) {
        json[name] = value;
    }
    template <class T>
    void operator()(const char* name, T& value, const char*, const Allowed& = {}) {
        if constexpr (is_optional<T>) {
            if (value) json[name] = *value;
        } else if (!brief_ || value != T{}) {
            json[name] = value;
        }
    }
    Json json = Json::object();

  private:
    bool brief_;
};

// Parses the arguments of an operation. If `strict`, fails if there are unknown fields. Otherwise
// ignores unknown fields, because a newer client may send them.
template <class Args>
Result<Args> read_arguments(const Json& json, bool strict = false) {
    Args args;
    FieldReader reader(json, Args::kOperation.name);
    fields(reader, args);
    ROLL_TRY_VOID(reader.finish(strict));
    return args;
}

template <class Args>
Json arguments_json(Args args) {
    FieldWriter writer(true);
    fields(writer, args);
    return std::move(writer.json);
}

// Returns a reply as JSON, with the field "schema".
template <class Reply>
Json reply_json(Reply reply, const char* schema) {
    FieldWriter writer(false);
    fields(writer, reply);
    writer.json["schema"] = schema;
    return std::move(writer.json);
}

}  // namespace roll::protocol
