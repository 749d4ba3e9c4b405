// Fuzzes pickles. Any bytes are refused, or become plain data in which every reference leads to a
// node.
#include "worker/formats/pickle.hpp"

#include "common/check.hpp"
#include "tests/fuzz/input.hpp"

using roll::formats::kNoPickle;
using roll::formats::Pickle;
using roll::formats::PickleId;
using roll::formats::PickleNode;

// Depth and count are limited, because the graph may have cycles.
static void walk(const Pickle& pickle, PickleId id, int depth, int& left) {
    const PickleNode& node = pickle.at(id);
    if (depth == 0 || --left < 0) return;
    for (const PickleId item : node.items) walk(pickle, item, depth - 1, left);
    if (node.contents != kNoPickle) walk(pickle, node.contents, depth - 1, left);
    if (node.state != kNoPickle) walk(pickle, node.state, depth - 1, left);
    if (const auto* entries = pickle.entries_of(id)) ROLL_CHECK(entries->size() % 2 == 0);
    pickle.arguments_of(id, "torch._utils _rebuild_tensor_v2");
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto pickle = Pickle::parse(roll::fuzz::bytes_of(data, size));
    if (!pickle) return 0;
    pickle->find(pickle->root(), "model");
    int left = 10'000;
    walk(*pickle, pickle->root(), 16, left);
    return 0;
}
