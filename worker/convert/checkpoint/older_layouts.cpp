#include "worker/convert/checkpoint/older_layouts.hpp"

#include <algorithm>

namespace roll::convert {

bool is_qkv(const Stored& stored) {
    return stored.name.ends_with(".linear_qkv.weight") || stored.name.ends_with(".linear_qkv.bias");
}

Result<void> check_heads(const Stored& qkv, double version) {
    const bool equal = std::all_of(qkv.pieces.begin(), qkv.pieces.end(), [&](const Piece& piece) {
        return piece.size == qkv.pieces.front().size;
    });
    if (equal && qkv.pieces.size() % 3 == 0) return {};
    return fail(ErrorCode::InvalidArgument,
                qkv.file + ": checkpoint_version " + std::to_string(version).substr(0, 3) +
                    " stores the rows of " + qkv.name +
                    " in an order that exists only for models without query groups, but the config "
                    "has query groups; give the right model with --config");
}

void order_by_part(Stored& qkv) {
    std::int64_t row = 0;
    for (std::size_t part = 0; part < kInterleaved.size(); ++part)
        for (std::size_t i = part; i < qkv.pieces.size(); i += kInterleaved.size()) {
            qkv.pieces[i].stored_begin[0] = row;
            row += qkv.pieces[i].size[0];
        }
}

std::vector<Stored> with_gate_apart(std::vector<Stored> layout) {
    const std::string fused = ".mlp.linear_fc1.weight";
    std::vector<Stored> result;
    for (Stored& stored : layout) {
        if (!stored.name.ends_with(fused) || stored.pieces.size() != 2) {
            result.push_back(std::move(stored));
            continue;
        }
        for (const char* ending : {".mlp.linear_fc1.weight", ".mlp.linear_fc1_2.weight"}) {
            Stored half = stored;
            half.name = stored.name.substr(0, stored.name.size() - fused.size()) + ending;
            half.pieces = {stored.pieces[half.name == stored.name ? 0 : 1]};
            half.pieces[0].stored_begin[0] = 0;
            half.shape[0] = half.pieces[0].size[0];
            result.push_back(std::move(half));
        }
    }
    return result;
}

}  // namespace roll::convert
