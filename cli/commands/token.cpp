#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/group.hpp"
#include "cli/job/options.hpp"
#include "cli/text/render.hpp"
#include "common/protocol/token_operations.hpp"

namespace roll::cli {

namespace {

struct TokenOptions {
    std::string scope = "read";
    std::string expires = "30d";
    std::string note;
};

Result<int> run_token_create(const Context& context, const TokenOptions& options) {
    ROLL_TRY(const std::chrono::seconds life, duration_of("--expires", options.expires));
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json reply,
             daemon.ask(protocol::TokenCreateArgs{options.scope, life.count(), options.note}));
    if (context.json) {
        print_json(reply);
        return 0;
    }
    print(field_text(reply, "token") + "\n");
    say(fmt::format("keep the token secret; it cannot be shown again. Scope {}, valid until {}",
                    options.scope, field_text(reply, "expires_at")));
    return 0;
}

Result<int> run_token_list(const Context& context) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json reply, daemon.ask(protocol::TokenListArgs{}));
    if (context.json) {
        print_json(reply);
        return 0;
    }
    std::vector<std::vector<std::string>> rows;
    for (const Json& one : reply.value("tokens", Json::array())) {
        if (context.parsable) print(field_text(one, "id") + "\n");
        rows.push_back({field_text(one, "id"), field_text(one, "user"), field_text(one, "scope"),
                        one.value("expired", false) ? "expired" : field_text(one, "expires_at"),
                        field_text(one, "note")});
    }
    if (!context.parsable)
        print(table({{"ID"}, {"USER"}, {"SCOPE"}, {"VALID UNTIL"}, {"NOTE"}}, rows, context.color));
    return 0;
}

Result<int> run_token_revoke(const Context& context, const std::string& id) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json reply, daemon.ask(protocol::TokenRevokeArgs{id}));
    if (context.json)
        print_json(reply);
    else
        print(context.parsable ? id + "\n" : fmt::format("token {} is revoked\n", id));
    return 0;
}

}  // namespace

void add_token_commands(CLI::App& token, const AddCommand& command, const Context& context) {
    const auto options = std::make_shared<TokenOptions>();
    CLI::App* create = command(token, "create", "Make a token that acts for you; print it once",
                               [=, &context] { return run_token_create(context, *options); });
    create
        ->add_option("--scope", options->scope,
                     "read: only view; submit: view and queue jobs; operate: everything that you "
                     "may do [read]")
        ->check(CLI::IsMember({"read", "submit", "operate"}));
    create->add_option("--expires", options->expires,
                       "Time until the token expires, 1m to 400d [30d]");
    create->add_option("--note", options->note,
                       "Purpose of the token; `rollctl token list` shows it");
    command(token, "list", "List tokens, without their secrets",
            [&context] { return run_token_list(context); });
    const auto id = std::make_shared<std::string>();
    command(token, "revoke", "Make a token invalid at once",
            [=, &context] { return run_token_revoke(context, *id); })
        ->add_option("ID", *id, "Id as `rollctl token list` shows it")
        ->required();
}

}  // namespace roll::cli
