// The operations on tokens for HTTP: their arguments and replies.
#pragma once

#include <cstdint>
#include <string>

#include "common/protocol/arguments.hpp"

namespace roll::protocol {

struct TokenCreateArgs {
    static constexpr Operation kOperation{
        "token_create", Access::Change, Answering::AtOnce, "roll.token/1",
        "Makes a token, with which other programs send requests on behalf of the caller."};
    std::string scope{};
    std::int64_t seconds = 0;
    std::string note{};
};
struct TokenReply {
    std::string id{};
    std::string user{};
    std::string scope{};
    std::string expires_at{};
    std::string token{};
};
struct TokenRevokeArgs {
    static constexpr Operation kOperation{"token_revoke", Access::Change, Answering::AtOnce,
                                          "roll.token_revoked/1", "Makes a token invalid."};
    std::string id{};
};
struct TokenRevokeReply {
    std::string id{};
};
struct TokenListArgs {
    static constexpr Operation kOperation{"token_list", Access::Read, Answering::AtOnce,
                                          "roll.tokens/1", "Lists tokens without their secrets."};
};
struct WithTokenArgs {
    static constexpr Operation kOperation{"with_token", Access::Read, Answering::Later, "",
                                          "Carries out an operation for the user of a token."};
    std::string token{};
    std::string op{};
    Json args{};
};
struct WhoamiArgs {
    static constexpr Operation kOperation{"whoami", Access::Read, Answering::AtOnce,
                                          "roll.whoami/1",
                                          "Returns the user on whose behalf the request is made."};
};
struct WhoamiReply {
    std::string user{};
    std::string scope{};
    bool is_operator = false;
};

// clang-format off
template <class V> void fields(V& v, TokenCreateArgs& a) {
    v.needs("scope", a.scope, "read, submit or operate");
    v.needs("seconds", a.seconds, "seconds until the token expires: 60 to 34560000");
    v("note", a.note, "what the token is for");
}
template <class V> void fields(V& v, TokenReply& r) {
    v("id", r.id, "id of the token, which is not secret");
    v("user", r.user, "user on whose behalf requests with this token are made");
    v("scope", r.scope, "what the token may do");
    v("expires_at", r.expires_at, "when the token expires");
    v("token", r.token, "the token; it is not stored and cannot be shown again");
}
template <class V> void fields(V& v, TokenRevokeArgs& a) { v.needs("id", a.id, "id of the token"); }
template <class V> void fields(V& v, TokenRevokeReply& r) { v("id", r.id, "id of the token"); }
template <class V> void fields(V&, TokenListArgs&) {}
template <class V> void fields(V& v, WithTokenArgs& a) {
    v.needs("token", a.token, "the token");
    v.needs("op", a.op, "the operation");
    v("args", a.args, "its arguments");
}
template <class V> void fields(V&, WhoamiArgs&) {}
template <class V> void fields(V& v, WhoamiReply& r) {
    v("user", r.user, "user on whose behalf the request is made");
    v("scope", r.scope, "read, submit or operate");
    v("operator", r.is_operator, "whether the user may change the cluster and everybody's jobs");
}
// clang-format on

}  // namespace roll::protocol
