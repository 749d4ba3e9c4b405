#include "worker/formats/pickle_writer.hpp"

#include <bit>

namespace roll::formats {

template <class Make>
void PickleWriter::once(const std::string& what, Make make) {
    const auto known = memo_.find(what);
    if (known != memo_.end()) {
        op('j');
        fixed(known->second);
        return;
    }
    make();
    const auto index = static_cast<std::uint32_t>(memo_.size());
    memo_[what] = index;
    op('r');
    fixed(index);
}

void PickleWriter::text(std::string_view text) {
    op('X');
    fixed(static_cast<std::uint32_t>(text.size()));
    out_ += text;
}

void PickleWriter::word(const std::string& text) {
    once("t " + text, [&] { this->text(text); });
}

void PickleWriter::global(const std::string& module, const std::string& name) {
    once(module + " " + name, [&] { out_ += "c" + module + "\n" + name + "\n"; });
}

void PickleWriter::integer(std::int64_t value) {
    if (value >= 0 && value < 256) {
        op('K');
        out_ += static_cast<char>(value);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
        op('J');
        fixed(static_cast<std::int32_t>(value));
    } else {
        out_ += "\x8a\x08";
        fixed(value);
    }
}

void PickleWriter::number(double value) {
    op('G');
    fixed(__builtin_bswap64(std::bit_cast<std::uint64_t>(value)));  // big-endian
}

void PickleWriter::integers(const std::vector<std::int64_t>& values) {
    tuple([&] {
        for (const std::int64_t value : values) integer(value);
    });
}

void PickleWriter::object(const std::string& module, const std::string& name) {
    global(module, name);
    op(pickle_op::kEmptyTuple);
    op(pickle_op::kNewObject);
}

}  // namespace roll::formats
