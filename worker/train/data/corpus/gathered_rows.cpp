#include "worker/train/data/corpus/gathered_rows.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "common/check.hpp"

namespace roll::data {
namespace {

// Returns the index of each document's row, and the number of rows. `most`: maximum size of a row.
std::pair<std::vector<std::size_t>, std::size_t> best_fit(const std::vector<std::size_t>& sizes,
                                                          std::size_t most) {
    std::vector<std::size_t> order(sizes.size()), row(sizes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return sizes[i]; });
    // rows that are not full; the key is the free room
    std::map<std::size_t, std::vector<std::size_t>> by_room;
    std::size_t rows = 0;
    for (const std::size_t document : order) {
        const auto found = by_room.lower_bound(sizes[document]);
        const bool fits = found != by_room.end();
        const std::size_t room = (fits ? found->first : most) - sizes[document];
        row[document] = fits ? found->second.back() : rows++;
        if (fits) found->second.pop_back();
        if (fits && found->second.empty()) by_room.erase(found);
        if (room > 0) by_room[room].push_back(row[document]);
    }
    return {std::move(row), rows};
}

}  // namespace

GatheredRows::GatheredRows(const TokenFile& file, std::size_t end, const RowRules& rules)
    : file_(&file) {
    std::vector<std::size_t> ends = file.starts_within(0, end), sizes;
    if (end > 0) ends.push_back(end);
    std::vector<Piece> pieces;
    std::size_t begin = 0;
    for (const std::size_t document_end : ends) {
        for_pieces(file.tokens().subspan(begin, document_end - begin), rules,
                   [&](const Piece& piece) {
                       pieces.push_back({begin + piece.begin, piece.size});
                       sizes.push_back(piece.size);
                   });
        begin = document_end;
    }
    tokens_ = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    const auto [row, rows] = best_fit(sizes, rules.most());
    first_.assign(rows + 1, 0);
    for (const std::size_t one : row) ++first_[one + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    std::vector<std::size_t> next = first_;
    pieces_.resize(pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) pieces_[next[row[i]]++] = pieces[i];
}

GatheredTokens GatheredRows::gather(std::size_t row) const {
    ROLL_CHECK(row < size());
    GatheredTokens gathered;
    for (std::size_t i = first_[row]; i < first_[row + 1]; ++i) {
        if (i > first_[row]) gathered.starts.push_back(gathered.tokens.size());
        const Tokens document = file_->tokens().subspan(pieces_[i].begin, pieces_[i].size);
        for (std::size_t t = 0; t < document.size(); ++t) gathered.tokens.push_back(document[t]);
    }
    return gathered;
}

}  // namespace roll::data
