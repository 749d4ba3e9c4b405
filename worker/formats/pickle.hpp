// Python pickles, protocols 0 to 5, read as plain data: nothing named in one is ever looked up or
// called. Calls and classes become nodes that say what would have been called.
//
// Size, values and the memory that they take are limited; nothing recurses.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::formats {

enum class PickleKind : std::uint8_t {
    None,
    Bool,       // integer
    Int,        // integer; a number beyond 64 bits is Bytes, as pickle has it
    Float,      // number
    Text,       // text, UTF-8
    Bytes,      // text
    List,       // items
    Tuple,      // items
    Set,        // items
    Dict,       // items: key, value, key, value, ...
    Global,     // text: "module name"
    Call,       // items: what is called, its arguments; contents and state as below
    Persistent  // items: the persistent id
};

using PickleId = std::uint32_t;
constexpr PickleId kNoPickle = ~PickleId{0};

struct PickleNode {
    PickleKind kind = PickleKind::None;
    std::int64_t integer = 0;
    double number = 0;
    std::string text;
    std::vector<PickleId> items;
    PickleId contents = kNoPickle;  // of a Call that was filled like a List, Dict or Set: that one
    PickleId state = kNoPickle;     // of a Call: what the last BUILD gave it
};

constexpr std::size_t kPickleBytesMax = 256U << 20U;
constexpr std::size_t kPickleNodesMax = 16U << 20U;
// Memory in bytes: pickles of checkpoints take about 25 times their size.
constexpr std::size_t kPickleMemoryMin = 16U << 20U;
constexpr std::size_t kPickleMemoryPerByte = 32;

// A graph: nodes may be shared, and a hostile file may make cycles, so walkers limit their depth.
class Pickle {
  public:
    // Corrupt: not a pickle, an opcode we do not read, or over the limits: `values_max` values, and
    // kPickleMemoryMin + kPickleMemoryPerByte * bytes.size() bytes of memory.
    static Result<Pickle> parse(std::span<const std::byte> bytes,
                                std::size_t values_max = kPickleNodesMax);

    PickleId root() const { return root_; }
    const PickleNode& at(PickleId id) const { return nodes_[id]; }

    bool is(PickleId id, PickleKind kind) const { return at(id).kind == kind; }
    bool is_global(PickleId id, std::string_view module_and_name) const {
        return is(id, PickleKind::Global) && at(id).text == module_and_name;
    }
    // A Call of this global, or nullptr: its arguments.
    const PickleNode* arguments_of(PickleId id, std::string_view module_and_name) const;
    // The entries (key, value, ...) of a dict or of an OrderedDict; null if it is neither.
    const std::vector<PickleId>* entries_of(PickleId id) const;
    // The value at a text key of such a dict; null if there is none.
    const PickleId* find(PickleId dict, std::string_view key) const;

  private:
    friend class PickleMachine;
    std::deque<PickleNode> nodes_;
    PickleId root_ = 0;
};

}  // namespace roll::formats
