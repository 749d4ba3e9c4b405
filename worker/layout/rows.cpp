#include "worker/layout/rows.hpp"

namespace roll::layout {

Rows own_rows(std::int64_t rows, int ranks, int rank) {
    const std::int64_t begin = rows * rank / ranks, end = rows * (rank + 1) / ranks;
    return {begin, end - begin};
}

}  // namespace roll::layout
