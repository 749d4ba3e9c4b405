#include "common/error.hpp"

namespace roll {

const char* name_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::InvalidArgument: return "invalid_argument";
        case ErrorCode::NotFound: return "not_found";
        case ErrorCode::Refused: return "refused";
        case ErrorCode::Unavailable: return "unavailable";
        case ErrorCode::Corrupt: return "corrupt";
        case ErrorCode::Failed: return "failed";
    }
    return "failed";
}

}  // namespace roll
