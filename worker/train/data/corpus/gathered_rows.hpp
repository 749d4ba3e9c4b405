// Groups the whole documents of a file into rows so that few positions of a row stay empty.
//
// Best-fit decreasing: the documents are taken from the longest to the shortest. Each document is
// added to the fullest row in which it fits. If it fits in no row, a new row begins. A document
// that is longer than a row is truncated, split or dropped (row_rules.hpp). The documents of a row
// are in the order of the file.
#pragma once

#include <cstddef>
#include <vector>

#include "worker/train/data/corpus/megatron_index.hpp"
#include "worker/train/data/corpus/row_rules.hpp"
#include "worker/train/data/corpus/token_file.hpp"

namespace roll::data {

class GatheredRows {
  public:
    // Groups the documents that begin in the tokens [0, end) of `file`, which must outlive this
    // object. `end` must be between documents.
    GatheredRows(const TokenFile& file, std::size_t end, const RowRules& rules);

    std::size_t size() const { return first_.size() - 1; }  // number of rows
    std::size_t tokens() const { return tokens_; }          // number of tokens of all rows

    // Returns the tokens of a row. Requires row < size().
    GatheredTokens gather(std::size_t row) const;

  private:
    const TokenFile* file_;
    std::vector<Piece> pieces_;  // ranges of the file's tokens, row after row
    // for each row, the index of its first piece; at the end, the number of pieces
    std::vector<std::size_t> first_ = {};
    std::size_t tokens_ = 0;
};

}  // namespace roll::data
