#include "worker/convert/write/megatron.hpp"

#include <algorithm>
#include <tuple>

#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/checkpoint/older_layouts.hpp"
#include "worker/formats/megatron.hpp"

namespace roll::convert {
namespace {

// Changes an attention tensor to the row order of checkpoint version 1: within each head, the order
// of rows is q[0], k[0], v[0], q[1], k[1], v[1], and so on. Requires that the pieces of each head
// are in the order query, key, value.
void interleave(Stored& qkv) {
    const auto parts = static_cast<std::int64_t>(kInterleaved.size());
    std::int64_t head = 0;
    for (std::size_t i = 0; i < qkv.pieces.size(); ++i) {
        Piece& piece = qkv.pieces[i];
        const auto part = static_cast<std::int64_t>(i) % parts;
        piece.stored_begin[0] = head + part;
        piece.placing.axes.clear();
        piece.placing.steps.assign(piece.size.size(), 1);
        for (std::size_t dim = 0; dim < piece.size.size(); ++dim) piece.placing.axes.push_back(dim);
        piece.placing.steps[0] = parts;
        if (part == parts - 1) head += parts * piece.size[0];
    }
}

Result<void> make_former(const Source& source, Stored& stored, int version) {
    if (version < 2 && is_qkv(stored)) {
        ROLL_TRY_VOID(check_heads(stored, version));
        version == 0 ? order_by_part(stored) : interleave(stored);
    }
    const std::string name = formats::former_spelling(
        stored.name, source.config.native.value("tie_embeddings_and_output_weights", false));
    if (name.empty())
        return fail(ErrorCode::InvalidArgument,
                    "checkpoint_version " + std::to_string(version) +
                        " is older than Megatron core and has no name for " + stored.name +
                        " of family " + source.family->name,
                    "--checkpoint-version 3");
    stored.name = name;
    return {};
}

}  // namespace

Result<std::vector<Stored>> megatron_layout(const Source& source, formats::McaConfig config,
                                            int version) {
    const bool former = version < 3;
    if (former) {
        ROLL_TRY_VOID(check_whole_groups(config));
        config.local_names = true;
    }
    ROLL_TRY(std::vector<Stored> layout, mca_layout(source.native, source.model, config));
    for (Stored& stored : layout) {
        stored.file = kMegatronRelease + stored.file.substr(stored.file.find('/'));
        if (former) ROLL_TRY_VOID(make_former(source, stored, version));
    }
    // Sort the layout, because the tensors of each inner dict must be adjacent.
    if (former)
        std::stable_sort(layout.begin(), layout.end(), [](const Stored& a, const Stored& b) {
            const auto front = [](const Stored& one) {
                return one.name.substr(0, one.name.rfind('/'));
            };
            return std::tuple(a.file, a.section, front(a)) <
                   std::tuple(b.file, b.section, front(b));
        });
    return layout;
}

}  // namespace roll::convert
