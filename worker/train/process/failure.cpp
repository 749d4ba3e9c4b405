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

}  // namespace roll::train
