// Chooses rows from a table so that every pair, and some triples, of values are in a chosen row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <unordered_set>
#include <vector>

namespace roll::train {

using Row = std::vector<int>;  // on each axis, the index of a value, at most 15
using Tuples = std::unordered_set<int>;

constexpr int kRadix = 1024;  // more than the number of values on all axes

// Returns the pairs of values of a row, and the triples of values on the axes before `thrice`, as
// numbers.
inline std::vector<int> tuples_of(const Row& row, int thrice) {
    std::vector<int> tuples;
    const auto value = [&](int axis) { return 16 * axis + row[static_cast<std::size_t>(axis)]; };
    const int axes = static_cast<int>(row.size());
    for (int a = 0; a < axes; ++a)
        for (int b = a + 1; b < axes; ++b) {
            const int pair = value(a) * kRadix + value(b);
            tuples.push_back(pair);
            for (int c = b + 1; c < thrice; ++c)
                tuples.push_back((value(c) + 1) * kRadix * kRadix + pair);
        }
    return tuples;
}

// Returns the three pairs in a triple. Returns an empty list for a pair. `tuple`: a number from
// tuples_of().
inline std::vector<int> pairs_of(int tuple) {
    if (tuple < kRadix * kRadix) return {};
    const int a = tuple / kRadix % kRadix, b = tuple % kRadix;
    const int c = tuple / (kRadix * kRadix) - 1;
    return {a * kRadix + b, a * kRadix + c, b * kRadix + c};
}

inline Tuples tuples_of(const std::vector<Row>& rows, int thrice) {
    Tuples all;
    for (const Row& row : rows)
        for (const int tuple : tuples_of(row, thrice)) all.insert(tuple);
    return all;
}

// Returns rows that together have all `tuples`, each of which must be in some row. Takes the row
// with the most tuples that are still missing for its cost, among some that `random` draws.
inline std::vector<Row> cover(const std::vector<Row>& rows, Tuples tuples, int thrice,
                              std::mt19937_64& random,
                              const std::function<std::int64_t(const Row&)>& cost) {
    constexpr int kDrawn = 200;
    std::vector<Row> chosen;
    while (!tuples.empty()) {
        double most = 0;
        const Row* best = nullptr;
        const auto consider = [&](const Row& row) {
            const auto missing = std::ranges::count_if(
                tuples_of(row, thrice), [&](int tuple) { return tuples.contains(tuple); });
            const double gain = static_cast<double>(missing) / static_cast<double>(cost(row));
            if (gain <= most) return;
            most = gain;
            best = &row;
        };
        for (int i = 0; i < kDrawn; ++i) consider(rows[random() % rows.size()]);
        for (std::size_t i = 0; !best && i < rows.size(); ++i) consider(rows[i]);
        if (!best) break;
        chosen.push_back(*best);
        for (const int tuple : tuples_of(*best, thrice)) tuples.erase(tuple);
    }
    return chosen;
}

// Returns the row that differs from `row` on the fewest axes.
inline Row nearest(const std::vector<Row>& rows, const Row& row) {
    const auto distance = [&](const Row& other) {
        int differing = 0;
        for (std::size_t a = 0; a < row.size(); ++a) differing += row[a] != other[a];
        return differing;
    };
    return *std::ranges::min_element(rows, {}, distance);
}

}  // namespace roll::train
