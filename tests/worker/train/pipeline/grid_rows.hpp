// The cells of the grid (grid_test.cpp): the axes, their values, and the job of each cell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/spec/schema/problem.hpp"
#include "tests/worker/train/pipeline/covering.hpp"
#include "tests/worker/train/pipeline/world.hpp"
#include "worker/train/model/model_setup.hpp"

namespace roll::train {

// The axes of a row. Order: the pipeline schedule. Split: how layers are divided over the stages.
// Learned: the data and the objective. Again: what backward computes again.
enum Axis {
    Again,
    Tp,
    Pp,
    Vpp,
    Zero,
    Dp,
    Order,
    Sequence,
    Split,
    Family,
    Learned,
    Adapter,
    Cp,
    kAxes
};

struct Grid {
    std::vector<Row> cells;
    std::vector<Row> refused;  // rows that a rule of the job file refuses
};

// Returns true if the environment has ROLL_GRID=full.
bool is_full();

// Returns the number of cells that the grid must have.
std::size_t cells_min();

// Makes the grid of rows without context parallelism. Every call makes the same one.
Grid make_grid();

// Returns legal rows with context parallelism. Together they have all pairs of a size of Cp and a
// value of another axis and, in the full grid, all triples with Cp. They have no objective of
// preferences, because a rule refuses it.
std::vector<Row> context_rows();

// Returns the problems for which a job file with this layout is refused.
std::vector<spec::Problem> problems(const Row& row);

// Returns the row's model. All rows with the same key have the same one.
ModelSetup setup_of(const Row& row);

// Returns the values that decide what one rank computes: a cell computes the same as every other
// cell with this key.
std::vector<int> key_of(const Row& row);

// The number of steps of a cell. Each cell then saves a checkpoint, and continues from another
// layout's.
inline constexpr int kStepsOfCell = 5;

// Returns a number that grows with the time of a cell.
std::int64_t cost_of(const Row& row);

// Returns the row's job in its layout. The job saves a checkpoint at its end, and does not
// evaluate. `setup` is the row's model, and must outlive the job.
World world_of(const Row& row, const ModelSetup& setup);

// Returns the same job on one rank.
World alone(World world);

// Returns the row with another value of Again; 0: nothing is computed again.
Row with_kind(Row row, int kind);

std::string name(const Row& row);

}  // namespace roll::train
