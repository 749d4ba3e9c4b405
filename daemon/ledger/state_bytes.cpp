#include "daemon/ledger/state_bytes.hpp"

#include <cstring>
#include <set>
#include <typeinfo>

#include <boost/pfr.hpp>

#include "common/hash.hpp"
#include "daemon/core/apply/indexing.hpp"

namespace roll::ledger {
namespace {

template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
concept Duration = requires {
    typename T::rep;
}
&&!requires { typename T::clock; };
template <class T>
concept Instant = requires {
    typename T::clock;
};
template <class T>
concept Container = requires(T t) {
    t.begin();
    typename T::value_type;
};
template <class T>
concept Optional = requires(T t) {
    t.has_value();
};
template <class T>
concept Pair = requires {
    typename T::first_type;
};

// Type of a container's elements. For a map, the key is not const, so that a value can be read into
// it.
template <class T>
struct Element {
    using type = T;
};
template <class K, class V>
struct Element<std::pair<const K, V>> {
    using type = std::pair<K, V>;
};

// Collects bytes in a buffer, and passes the buffer to `sink` whenever it is full and at the end.
struct ByteWriter {
    const ByteSink& sink;
    std::string bytes{};

    void add(const char* data, std::size_t size) {
        constexpr std::size_t kBufferBytes = 256 << 10;
        bytes.append(data, size);
        if (bytes.size() >= kBufferBytes) flush();
    }
    void flush() {
        sink(bytes);
        bytes.clear();
    }

    template <class T>
    void put(const T& value) {
        if constexpr (std::is_same_v<T, core::Index>) {
            return;
        } else if constexpr (Plain<T>) {
            add(reinterpret_cast<const char*>(&value), sizeof value);
        } else if constexpr (Duration<T>) {
            put(value.count());
        } else if constexpr (Instant<T>) {
            put(value.time_since_epoch());
        } else if constexpr (std::is_same_v<T, std::string>) {
            put(value.size());
            add(value.data(), value.size());
        } else if constexpr (std::is_same_v<T, SharedText>) {
            put(value.text());
        } else if constexpr (Container<T>) {
            put(value.size());
            for (const auto& element : value) put(element);
        } else if constexpr (Optional<T>) {
            put(value.has_value());
            if (value) put(*value);
        } else if constexpr (Pair<T>) {
            put(value.first);
            put(value.second);
        } else {
            boost::pfr::for_each_field(value, [this](const auto& field) { put(field); });
        }
    }
};

struct ByteReader {
    std::string_view bytes;
    bool whole = true;  // true if no read has failed yet
    SharedText last{};  // the text that was read last

    // Returns whether `count` bytes are left. After a failure, all later reads also fail.
    bool has(std::size_t count) {
        whole = whole && count <= bytes.size();
        return whole;
    }

    template <class T>
    void take(T& value) {
        if constexpr (std::is_same_v<T, core::Index>) {
            return;
        } else if constexpr (Plain<T>) {
            if (!has(sizeof value)) return;
            std::memcpy(&value, bytes.data(), sizeof value);
            bytes.remove_prefix(sizeof value);
        } else if constexpr (Duration<T>) {
            value = T(take_new<typename T::rep>());
        } else if constexpr (Instant<T>) {
            value = T(take_new<typename T::duration>());
        } else if constexpr (std::is_same_v<T, std::string>) {
            const auto size = take_new<std::size_t>();
            if (!has(size)) return;
            value = bytes.substr(0, size);
            bytes.remove_prefix(size);
        } else if constexpr (std::is_same_v<T, SharedText>) {
            value = take_new<std::string>();
            value.share_with(last);
            last = value;
        } else if constexpr (Container<T>) {
            const auto size = take_new<std::size_t>();
            // Each element takes at least one byte, so there cannot be more elements than bytes
            // left.
            if (!has(size)) return;
            for (std::size_t i = 0; i < size && whole; ++i)
                value.insert(value.end(),
                             take_new<typename Element<typename T::value_type>::type>());
        } else if constexpr (Optional<T>) {
            if (take_new<bool>()) value = take_new<typename T::value_type>();
        } else if constexpr (Pair<T>) {
            take(value.first);
            take(value.second);
        } else {
            boost::pfr::for_each_field(value, [this](auto& field) { take(field); });
        }
    }

    template <class T>
    T take_new() {
        T value{};
        take(value);
        return value;
    }
};

// Returns a text that contains the name of the enumerator V. The text is this function's signature,
// which ends with, for example, "auto V = roll::core::JobPhase::Done]". If no enumerator has the
// value V, the text contains the number instead.
template <auto V>
std::string name_of_value() {
    return __PRETTY_FUNCTION__;
}

template <class E, int... V>
std::string names_of(std::integer_sequence<int, V...>) {
    return (name_of_value<static_cast<E>(V)>() + ...);
}

struct Describer {
    std::string text;
    // Types that are already described; needed because JobSpec contains itself.
    std::set<std::string> known{};

    template <class T>
    void describe() {
        if constexpr (std::is_enum_v<T>) {
            text += names_of<T>(std::make_integer_sequence<int, 16>());
        } else if constexpr (Plain<T> || Duration<T> || Instant<T> ||
                             std::is_same_v<T, std::string> || std::is_same_v<T, core::Index>) {
            text += std::string(typeid(T).name()) + " ";
        } else if constexpr (std::is_same_v<T, SharedText>) {
            describe<std::string>();
        } else if constexpr (Container<T>) {
            text += "list ";
            describe<typename Element<typename T::value_type>::type>();
        } else if constexpr (Optional<T>) {
            text += "optional ";
            describe<typename T::value_type>();
        } else if constexpr (Pair<T>) {
            describe<typename T::first_type>();
            describe<typename T::second_type>();
        } else {
            text += typeid(T).name();
            if (!known.insert(typeid(T).name()).second) return;
            text += "{";
            const T value{};
            boost::pfr::for_each_field(
                value, [&](const auto& field) { describe<std::decay_t<decltype(field)>>(); });
            text += "}";
        }
    }
};

}  // namespace

std::uint64_t layout() {
    static const std::uint64_t hash = [] {
        Describer describer{ROLL_VERSION " "};
        describer.describe<core::State>();
        return hash64(describer.text);
    }();
    return hash;
}

void write_bytes(const core::State& state, const ByteSink& sink) {
    ByteWriter writer{sink};
    writer.put(state);
    writer.flush();
}

std::string bytes_of(const core::State& state) {
    std::string bytes;
    write_bytes(state, [&](std::string_view piece) { bytes += piece; });
    return bytes;
}

Result<core::State> state_from(std::string_view bytes) {
    ByteReader reader{bytes};
    auto state = reader.take_new<core::State>();
    if (!reader.whole || !reader.bytes.empty())
        return fail(ErrorCode::Corrupt, "the stored state of rolld cannot be decoded");
    state.index = core::make_index(state);
    return state;
}

}  // namespace roll::ledger
