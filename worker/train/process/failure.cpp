#include "worker/train/process/failure.hpp"

#include "common/protocol/rank.hpp"

namespace roll::train {

int status_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::InvalidArgument:
        case ErrorCode::NotFound: return protocol::kExitInvalid;
        case ErrorCode::Refused: return protocol::kExitRefused;
        case ErrorCode::Unavailable: return protocol::kExitPeerLost;
        case ErrorCode::Corrupt:
        case ErrorCode::Failed: return 1;
    }
    return 1;
}

std::string sentence_of(const Error& error) {
    return error.hint.empty() ? error.message : error.message + "; " + error.hint;
}

}  // namespace roll::train
