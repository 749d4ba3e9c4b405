// Writes pickles with the protocol 2 opcodes that torch.load(weights_only=True) accepts. Python's
// pickle.load also reads them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace roll::formats {

// Opcodes for op(). PickleWriter's other functions write further opcodes themselves.
namespace pickle_op {
constexpr char kEmptyTuple = ')';
constexpr char kTuple1 = '\x85';
constexpr char kReduce = 'R';
constexpr char kNewObject = '\x81';
constexpr char kBuild = 'b';
constexpr char kPersistentId = 'Q';
constexpr char kNone = 'N';
}  // namespace pickle_op

class PickleWriter {
  public:
    PickleWriter() { out_ = "\x80\x02"; }
    std::string finish() && {
        out_ += '.';
        return std::move(out_);
    }
    void op(char code) { out_ += code; }
    void text(std::string_view text);
    // Like text(), but writes a given text only once. Later calls with the same text write a
    // reference to the first copy.
    void word(const std::string& text);
    void global(const std::string& module, const std::string& name);
    void integer(std::int64_t value);
    void number(double value);
    void boolean(bool value) { op(value ? '\x88' : '\x89'); }
    // Write a dict, a list or a tuple. `items` writes its items. The items of a dict are keys, each
    // followed by its value.
    template <class Items>
    void dict(const Items& items) {
        out_ += "}(";
        items();
        op('u');
    }
    template <class Items>
    void list(const Items& items) {
        out_ += "](";
        items();
        op('e');
    }
    template <class Items>
    void tuple(const Items& items) {
        op('(');
        items();
        op('t');
    }
    // Writes a tuple of integers.
    void integers(const std::vector<std::int64_t>& values);
    // Writes a new instance of a class, constructed without arguments. To set its attributes,
    // callers then write a state and kBuild, or call attributes().
    void object(const std::string& module, const std::string& name);
    // Sets the attributes of an object. `items` writes their names and values.
    template <class Items>
    void attributes(const Items& items) {
        dict(items);
        op(pickle_op::kBuild);
    }

  private:
    template <class T>
    void fixed(T value) {
        out_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    // Writes a value with `make` on the first call for the key `what`. Later calls for this key
    // write a reference to the value.
    template <class Make>
    void once(const std::string& what, Make make);

    std::string out_;
    std::map<std::string, std::uint32_t> memo_;
};

}  // namespace roll::formats
