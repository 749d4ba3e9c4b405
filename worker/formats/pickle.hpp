// Reads Python pickles, protocols 0 to 5, as plain data. Reading never looks up or calls a name in
// a pickle, so a pickle cannot run code. Calls and classes become nodes that describe the call.
//
// Size, number of values and memory are limited. Reading does not recurse.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::formats {

// The kind of a node. Each comment names the field of PickleNode that holds the node's content.
enum class PickleKind : std::uint8_t {
    None,
    Bool,  // content in `integer`
    // content in `integer`; a value beyond 64 bits is a Bytes node, encoded as in the pickle
    Int,
    Float,      // content in `number`
    Text,       // content in `text`, UTF-8
    Bytes,      // content in `text`
    List,       // content in `items`
    Tuple,      // content in `items`
    Set,        // content in `items`
    Dict,       // key, value, key, value ... in `items`
    Global,     // in `text`: the module, a space, and the name of an object in this module
    Call,       // callee and arguments in `items`; also `contents` and `state`
    Persistent  // the persistent id in `items`
};

using PickleId = std::uint32_t;
constexpr PickleId kNoPickle = ~PickleId{0};

struct PickleNode {
    PickleKind kind = PickleKind::None;
    std::int64_t integer = 0;
    double number = 0;
    std::string text;
    std::vector<PickleId> items;
    // the List, Dict or Set with the items that the pickle added to a Call's object
    PickleId contents = kNoPickle;
    PickleId state = kNoPickle;  // the argument of the last BUILD opcode for a Call's object
};

constexpr std::size_t kPickleBytesMax = 256U << 20U;
constexpr std::size_t kPickleNodesMax = 16U << 20U;
// The memory limit is a constant number of bytes plus a number of bytes for each byte of the
// pickle. Pickles of checkpoints need about 25 times their size.
constexpr std::size_t kPickleMemoryMin = 16U << 20U;
constexpr std::size_t kPickleMemoryPerByte = 32;

// A pickle as a graph of nodes. Nodes may be shared. Code that walks the graph must limit its
// depth, because a hostile file may contain cycles.
class Pickle {
  public:
    // Parses a pickle. Fails with Corrupt if the bytes are not a pickle, contain an unsupported
    // opcode or exceed a limit: `values_max` values, or kPickleMemoryMin + kPickleMemoryPerByte *
    // bytes.size() bytes of memory.
    static Result<Pickle> parse(std::span<const std::byte> bytes,
                                std::size_t values_max = kPickleNodesMax);

    PickleId root() const { return root_; }
    const PickleNode& at(PickleId id) const { return nodes_[id]; }

    bool is(PickleId id, PickleKind kind) const { return at(id).kind == kind; }
    bool is_global(PickleId id, std::string_view module_and_name) const {
        return is(id, PickleKind::Global) && at(id).text == module_and_name;
    }
    // Returns the arguments if the node is a Call of the global `module_and_name`, else nullptr.
    const PickleNode* arguments_of(PickleId id, std::string_view module_and_name) const;
    // Returns the entries (key, value, ...) of a dict or an OrderedDict; nullptr for other nodes.
    const std::vector<PickleId>* entries_of(PickleId id) const;
    // Returns the value at a text key of a dict or an OrderedDict; nullptr if there is none.
    const PickleId* find(PickleId dict, std::string_view key) const;

  private:
    friend class PickleMachine;
    std::deque<PickleNode> nodes_;
    PickleId root_ = 0;
};

}  // namespace roll::formats
