// Encodes the messages of this folder as JSON objects, and decodes them. A function fields() lists
// the members of a struct once, for both directions:
//
//   template <class V, Like<SaveOrder> T> void fields(V& v, T& o) {
//       v("attempt", o.attempt); v("asked", o.asked);
//   }
// v("name", member) is always written, and required. v.optional("name", member) is always written,
// but an older peer may have left it out. v.added("name", member) is left out if the member has the
// initial value of its type.
//
// A missing field or a wrong type fails with Corrupt and the path. Unknown fields are ignored.
#pragma once

#include <concepts>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/enum_name.hpp"
#include "common/ids.hpp"
#include "common/json_text.hpp"

namespace roll::protocol {

// T is Struct or const Struct.
template <class T, class Struct>
concept Like = std::same_as<std::remove_const_t<T>, Struct>;

template <class T>
constexpr bool kIsPlain =
    std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, Json>;
template <class T>
constexpr bool kIsPlain<std::vector<T>> = kIsPlain<T>;

// Returns the value in a form that JsonText can write.
template <class T>
decltype(auto) text_of(const T& value);

struct ObjectWriter {
    static constexpr bool kReads = false;
    JsonText text{};

    template <class T>
    void operator()(const char* name, const T& value) {
        text.add(name, text_of(value));
    }
    template <class T>
    void optional(const char* name, const T& value) {
        (*this)(name, value);
    }
    template <class T>
    void added(const char* name, const T& value) {
        if (value != T{}) (*this)(name, value);
    }
};

template <class T>
concept HasFields = requires(ObjectWriter& writer, const T& value) {
    fields(writer, value);
};

template <class T>
decltype(auto) text_of(const T& value) {
    if constexpr (kIsPlain<T>) {
        return (value);  // a reference, because a job's document may have megabytes
    } else if constexpr (HasFields<T>) {
        ObjectWriter writer;
        fields(writer, value);
        return JsonText(std::move(writer.text));
    } else if constexpr (std::is_enum_v<T>) {
        return name_in(names_of(value), value);
    } else if constexpr (std::is_same_v<T, Token>) {
        return to_string(value);
    } else if constexpr (requires { value.value(); }) {  // an optional, which has a value
        return text_of(*value);
    } else if constexpr (requires { typename T::mapped_type; }) {
        return Json(value);
    } else {
        std::vector<JsonText> list;
        for (const auto& item : value) list.push_back(text_of(item));
        return list;
    }
}

Result<void> read_value(const Json& json, const std::string& path, Token& token);
Result<void> read_value(const Json& json, const std::string& path,
                        std::map<std::string, std::string>& texts);
template <class T>
Result<void> read_value(const Json& json, const std::string& path, T& value);

class ObjectReader {
  public:
    static constexpr bool kReads = true;

    ObjectReader(const Json& json, const std::string& path) : reader_(json, path), path_(path) {}
    template <class T>
    void operator()(const char* name, T& value) {
        if constexpr (kIsPlain<T>)
            value = reader_.get<T>(name);
        else if constexpr (requires { value.value(); })
            (*this)(name, value.emplace());
        else
            keep(read_value(reader_.raw(name), path_ + "." + name, value));
    }
    template <class T>
    void optional(const char* name, T& value) {
        if (!reader_.raw(name).is_null()) (*this)(name, value);
    }
    template <class T>
    void added(const char* name, T& value) {
        optional(name, value);
    }
    void refuse(const std::string& problem) {
        keep(fail(ErrorCode::Corrupt, path_ + ": " + problem));
    }
    const Json& raw(const char* name) { return reader_.raw(name); }
    Result<void> finish();  // fails with the first error of a field

  private:
    void keep(Result<void> read) {
        if (read_) read_ = std::move(read);
    }
    JsonReader reader_;
    std::string path_;
    Result<void> read_{};
};

template <class T>
Result<void> read_value(const Json& json, const std::string& path, T& value) {
    if constexpr (HasFields<T>) {
        ObjectReader reader(json, path);
        fields(reader, value);
        return reader.finish();
    } else if constexpr (std::is_enum_v<T>) {
        const auto* text = json.get_ptr<const std::string*>();
        const auto known = find_name<T>(names_of(value), text == nullptr ? "" : *text);
        if (!known)
            return fail(ErrorCode::Corrupt, path + ": unknown name " + dump(json).substr(0, 40));
        value = *known;
        return {};
    } else {
        if (!json.is_array()) return fail(ErrorCode::Corrupt, path + ": is not a list");
        for (const Json& item : json) ROLL_TRY_VOID(read_value(item, path, value.emplace_back()));
        return {};
    }
}

}  // namespace roll::protocol
