// Reads Python pickles, protocols 0 to 5, as plain data: never looks up or calls a name in them.
// Calls and classes become nodes that describe the call.
//
// Size, number of values and memory are limited; nothing recurses.
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
    Int,        // integer; beyond 64 bits it becomes Bytes, pickle's own form
    Float,      // number
    Text,       // text, UTF-8
    Bytes,      // text
    List,       // items
    Tuple,      // items
    Set,        // items
    Dict,       // items: key, value, key, value, ...
    Global,     // text: "module name"
    Call,       // items: callee, arguments; contents and state as below
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
    PickleId contents = kNoPickle;  // for a Call filled like a List, Dict or Set: that container
    PickleId state = kNoPickle;     // for a Call: the argument of the last BUILD
};

constexpr std::size_t kPickleBytesMax = 256U << 20U;
constexpr std::size_t kPickleNodesMax = 16U << 20U;
// Memory in bytes. Pickles of checkpoints take about 25 times their size.
constexpr std::size_t kPickleMemoryMin = 16U << 20U;
constexpr std::size_t kPickleMemoryPerByte = 32;

// A graph of nodes. Nodes may be shared; a hostile file may contain cycles, so walkers limit their
// depth.
class Pickle {
  public:
    // Fails with Corrupt if the bytes are not a pickle, contain an unsupported opcode or exceed the
    // limits: `values_max` values, and kPickleMemoryMin + kPickleMemoryPerByte * bytes.size() bytes
    // of memory.
    static Result<Pickle> parse(std::span<const std::byte> bytes,
                                std::size_t values_max = kPickleNodesMax);

    PickleId root() const { return root_; }
    const PickleNode& at(PickleId id) const { return nodes_[id]; }

    bool is(PickleId id, PickleKind kind) const { return at(id).kind == kind; }
    bool is_global(PickleId id, std::string_view module_and_name) const {
        return is(id, PickleKind::Global) && at(id).text == module_and_name;
    }
    // Returns the arguments if the node is a Call of this global, else nullptr.
    const PickleNode* arguments_of(PickleId id, std::string_view module_and_name) const;
    // Returns the entries (key, value, ...) of a dict or an OrderedDict; nullptr for other nodes.
    const std::vector<PickleId>* entries_of(PickleId id) const;
    // Returns the value at a text key of such a dict; nullptr if there is none.
    const PickleId* find(PickleId dict, std::string_view key) const;

  private:
    friend class PickleMachine;
    std::deque<PickleNode> nodes_;
    PickleId root_ = 0;
};

}  // namespace roll::formats
