// The versions of the protocol that this program supports.
#pragma once

namespace roll::protocol {

// The protocol version. Peers of version kOldestVersion and later are supported. Replies use the
// peer's version. A missing field has the default of the peer's version. Version 2 added beat_ms to
// heartbeats. Version 3 added secrets to start orders.
constexpr int kVersion = 3;
constexpr int kOldestVersion = 1;
constexpr int kSecretsVersion = 3;  // a worker with an older version gets no jobs with secrets

}  // namespace roll::protocol
