#include "common/protocol/arguments.hpp"

namespace roll::protocol {

Result<void> FieldReader::finish(bool strict) {
    const auto read = strict ? reader_.finish() : reader_.finish_lenient();
    if (read) return {};
    return fail(ErrorCode::InvalidArgument, read.error().message,
                "rollctl and rolld may be of different versions; see `rollctl version`");
}

}  // namespace roll::protocol
