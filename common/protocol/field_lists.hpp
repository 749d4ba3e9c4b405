// The fields of the structs that are parts of several messages (fields.hpp), and the check of the
// protocol version.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "common/outcome.hpp"
#include "common/protocol/fields.hpp"
#include "common/protocol/written_checkpoint.hpp"
#include "common/protocol/written_export.hpp"
#include "common/training_request.hpp"

namespace roll {

// Returns the names of the enumerators of the argument's type.
constexpr const auto& names_of(Outcome) { return kOutcomes; }
constexpr const auto& names_of(RequestKind) { return kRequestKinds; }

}  // namespace roll

namespace roll::protocol {

// clang-format off
template <class V, Like<AttemptKey> T> void fields(V& v, T& key) { v("job", key.job.value); v("token", key.token); }
template <class V, Like<WrittenCheckpoint> T> void fields(V& v, T& c) {
    v("step", c.step); v("directory", c.directory); v.added("deleted", c.deleted);
    v.added("writer", c.writer); v.added("asked", c.asked); v.added("save_ms", c.save_ms);
}
template <class V, Like<WrittenExport> T> void fields(V& v, T& e) {
    v("step", e.step); v("directory", e.directory); v("oldest", e.oldest);
}
template <class V, Like<TrainingRequest> T> void fields(V& v, T& r) {
    v("number", r.number); v("what", r.kind); v.optional("value", r.value);
}
template <class V, Like<RequestAnswer> T> void fields(V& v, T& a) {
    constexpr std::size_t kTextBytesMax = 1000;
    v("number", a.number); v("step", a.step); v("text", a.text); v.added("stop_step", a.stop_step);
    if constexpr (V::kReads) a.text.resize(std::min(a.text.size(), kTextBytesMax));
}
// clang-format on

// Parses a frame. Fails with Refused if the frame's "v" is not from kOldestVersion to kVersion, and
// with Corrupt if the frame is not a JSON object. `what` names the message in errors.
Result<Json> parse_frame(std::string_view frame, const char* what);

template <class T>
Result<T> decode_frame(std::string_view frame, const char* what) {
    ROLL_TRY(const Json json, parse_frame(frame, what));
    T message;
    ROLL_TRY_VOID(read_value(json, what, message));
    return message;
}

}  // namespace roll::protocol
