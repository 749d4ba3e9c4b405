#include "worker/train/data/corpus/row_rules.hpp"

namespace roll::data {

std::size_t prompt_size(const Tokens& document) {
    std::size_t size = 0;
    while (size < document.size() && document[size] < 0) ++size;
    return size;
}

Piece kept_piece(const Tokens& document, const RowRules& rules) {
    const std::size_t size = document.size(), most = rules.most();
    if (size <= most) return {0, size};
    switch (rules.truncate) {
        case Truncate::Start: return {size - most, most};
        case Truncate::Prompt: {
            const std::size_t prompt = prompt_size(document);
            return {std::min(size - most, prompt - std::min<std::size_t>(prompt, 1)), most};
        }
        case Truncate::End:
        case Truncate::Split:
        case Truncate::Drop: break;
    }
    return {0, most};
}

}  // namespace roll::data
