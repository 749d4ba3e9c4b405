#include "worker/families/strands.hpp"

#include <algorithm>

namespace roll::families {
namespace {

constexpr std::int64_t kRunsMax = std::int64_t{1} << 22U;

struct Run {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

tl::unexpected<Error> wrong_strand(const NativeTensor& tensor, std::size_t source,
                                   const std::string& what) {
    const HfTensor& of = tensor.sources[source];
    return fail(ErrorCode::InvalidArgument,
                tensor.name + ": " + what + " of " + of.name + ", which has " +
                    std::to_string(of.shape[0]) + " rows",
                "each row must be in exactly one strand: check begin, rows, times, step and block");
}

// Returns the end of the strand's last row range, as a floating-point number, because an integer
// could overflow.
double end_of(const NativeTensor& tensor, const Strand& strand) {
    return static_cast<double>(strand.begin) +
           static_cast<double>(tensor.groups - 1) * static_cast<double>(strand.block) +
           static_cast<double>(strand.times - 1) * static_cast<double>(strand.step) +
           static_cast<double>(strand.rows);
}

// Returns the row ranges of source `source` that the strands use, in ascending order.
Result<std::vector<Run>> runs_of(const NativeTensor& tensor, std::size_t source) {
    std::vector<Run> runs;
    const auto rows = static_cast<double>(tensor.sources[source].shape[0]);
    for (const Strand& strand : tensor.strands) {
        if (strand.of != source) continue;
        if (const double end = end_of(tensor, strand); end > rows)
            return wrong_strand(tensor, source, "a strand ends at row " + Json(end).dump());
        const double count = static_cast<double>(tensor.groups) * static_cast<double>(strand.times);
        if (count + static_cast<double>(runs.size()) > static_cast<double>(kRunsMax))
            return wrong_strand(tensor, source,
                                "the strands select more than 4,194,304 separate row ranges");
        for (std::int64_t group = 0; group < tensor.groups; ++group)
            for (std::int64_t time = 0; time < strand.times; ++time) {
                const std::int64_t begin = strand.begin + group * strand.block + time * strand.step;
                runs.push_back({begin, begin + strand.rows});
            }
    }
    std::sort(runs.begin(), runs.end(),
              [](const Run& a, const Run& b) { return a.begin < b.begin; });
    return runs;
}

}  // namespace

Result<void> check_strands(const NativeTensor& tensor) {
    for (std::size_t source = 0; source < tensor.sources.size(); ++source) {
        ROLL_TRY(const std::vector<Run> runs, runs_of(tensor, source));
        std::int64_t next = 0;
        for (const Run& run : runs) {
            if (run.begin > next) break;
            if (run.begin < next)
                return wrong_strand(
                    tensor, source,
                    "two parts of the tensor contain row " + std::to_string(run.begin));
            next = run.end;
        }
        if (next != tensor.sources[source].shape[0])
            return wrong_strand(tensor, source,
                                "no part of the tensor contains row " + std::to_string(next));
    }
    return {};
}

}  // namespace roll::families
