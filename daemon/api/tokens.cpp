// The operations on tokens for HTTP, and `whoami`.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/protocol/scope.hpp"
#include "common/protocol/token_operations.hpp"
#include "daemon/api/operations.hpp"

namespace roll::api {
namespace {

// Fails if the caller uses a token. With new tokens, the holder of a token could keep access after
// that token has expired.
Result<void> may_use_tokens(const Caller& who) {
    return needs_key(who, "make, list or revoke tokens", "rollctl token");
}

Result<Plan> create(const Context& context, const Caller& who,
                    const protocol::TokenCreateArgs& args) {
    ROLL_TRY_VOID(may_use_tokens(who));
    const auto access = protocol::access_of_scope(args.scope);
    if (!access)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("the scope is {}; allowed: read, submit or operate",
                                args.scope.substr(0, 60)));
    // A token with scope operate has all rights of the user that it names. The caller's key may be
    // an ordinary user's key, although the user has the same name as the operator. Such a key must
    // not make a token with the operator's rights.
    if (*access == protocol::Access::Operate && who.role != Role::Operator &&
        context.role_of(who.user) == Role::Operator)
        return fail(ErrorCode::Refused,
                    fmt::format("{} is also the name of the operator; only the operator's key "
                                "may make a token of scope operate for this name",
                                who.user),
                    "use scope read or submit, or the operator's key");
    // Avoids an overflow; the store checks the real limit.
    constexpr std::int64_t kSecondsMax = 1'000'000'000;
    const Time expires =
        context.now + std::chrono::seconds(std::clamp<std::int64_t>(args.seconds, 0, kSecondsMax));
    ROLL_TRY(const std::string text, context.tokens.create({.user = who.user,
                                                            .access = *access,
                                                            .note = args.note.substr(0, 200),
                                                            .expires = expires},
                                                           context.now));
    const protocol::TokenReply reply{tokens::id_of(text), who.user, args.scope, to_iso8601(expires),
                                     text};
    return ReplyNow{protocol::reply_json(reply, protocol::TokenCreateArgs::kOperation.reply)};
}

// Lists all tokens for an operator, and only the user's own tokens for another user.
Result<Plan> list_tokens(const Context& context, const Caller& who,
                         const protocol::TokenListArgs&) {
    ROLL_TRY_VOID(may_use_tokens(who));
    Json list = Json::array();
    for (const auto& [id, token] : context.tokens.all()) {
        if (who.role != Role::Operator && token.user != who.user) continue;
        list.push_back({{"id", id},
                        {"user", token.user},
                        {"scope", protocol::scope_of_access(token.access)},
                        {"note", token.note},
                        {"created_at", to_iso8601(token.created)},
                        {"expires_at", to_iso8601(token.expires)},
                        {"expired", token.expires <= context.now}});
    }
    return ReplyNow{Json{{"schema", protocol::TokenListArgs::kOperation.reply}, {"tokens", list}}};
}

Result<Plan> revoke(const Context& context, const Caller& who,
                    const protocol::TokenRevokeArgs& args) {
    ROLL_TRY_VOID(may_use_tokens(who));
    const auto found = context.tokens.all().find(args.id);
    if (found != context.tokens.all().end() && who.role != Role::Operator &&
        found->second.user != who.user)
        return fail(
            ErrorCode::Refused,
            fmt::format("token {} belongs to {}, not to {}", args.id, found->second.user, who.user),
            "rollctl token list");
    ROLL_TRY_VOID(context.tokens.revoke(args.id));
    return ReplyNow{protocol::reply_json(protocol::TokenRevokeReply{args.id},
                                         protocol::TokenRevokeArgs::kOperation.reply)};
}

// A token of scope operate has all rights of its user. A token of any other scope has the rights of
// a user who is not an operator.
Result<Plan> with_token(const Context& context, const Caller& who,
                        const protocol::WithTokenArgs& args) {
    ROLL_TRY_VOID(may_use_tokens(who));
    const tokens::ApiToken* token = context.tokens.find(args.token, context.now);
    if (token == nullptr)
        return fail(ErrorCode::Refused, "the token is unknown, was revoked or has expired",
                    "rollctl token list; rollctl token create");
    const Role role = context.role_of(token->user);
    if (role == Role::None)
        return fail(ErrorCode::Refused,
                    fmt::format("{}, who made the token, has no key any more", token->user),
                    "rollctl keys list");
    const bool all = token->access == protocol::Access::Operate;
    const Caller caller{all ? role : Role::Client, token->user, token->access, true};
    ROLL_TRY(const ServedOperation* operation, find_for(caller, args.op));
    return operation->handle(context, caller, args.args.is_null() ? Json::object() : args.args);
}

Result<Plan> whoami(const Context&, const Caller& who, const protocol::WhoamiArgs&) {
    const protocol::WhoamiReply reply{who.user, protocol::scope_of_access(who.access),
                                      who.role == Role::Operator};
    return ReplyNow{protocol::reply_json(reply, protocol::WhoamiArgs::kOperation.reply)};
}

}  // namespace

std::span<const ServedOperation> token_operations() {
    static constexpr std::array kOperations = {
        served<protocol::TokenCreateArgs, create>(), served<protocol::TokenListArgs, list_tokens>(),
        served<protocol::TokenRevokeArgs, revoke>(), served<protocol::WithTokenArgs, with_token>(),
        served<protocol::WhoamiArgs, whoami>()};
    return kOperations;
}

}  // namespace roll::api
