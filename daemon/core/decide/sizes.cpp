#include "daemon/core/decide/sizes.hpp"

#include <fmt/format.h>

#include "common/spec/job/sweep.hpp"

namespace roll::core {

Result<void> check_copies(const spec::JobSpec& spec, std::size_t jobs) {
    constexpr std::size_t kBytesMax = 256u << 20;
    // Only the first trial of a sweep keeps the list of all trials.
    const auto trials = spec::Trials::of(spec.document.text());
    const std::size_t document = trials && trials->count() > 0
                                     ? trials->document(trials->count() - 1).size()
                                     : spec.document.size();
    const std::size_t each = document + spec.export_document.size();
    if (each * jobs <= kBytesMax) return {};
    return fail(
        ErrorCode::InvalidArgument,
        fmt::format("array: the job documents of {} tasks have {} bytes each, which is more "
                    "than 256 MiB in total",
                    jobs, each),
        "put a large script into a file, or make fewer tasks");
}

}  // namespace roll::core
