#include "common/spec/check/http_rules.hpp"

#include <fmt/format.h>

namespace roll::spec {

std::vector<Problem> check_http(const HttpConfig& config) {
    const auto address = parse_listen(config.listen);
    if (!address) return {{"http.listen", address.error().message}};
    if (address->is_loopback || config.insecure || !config.certificate.empty()) return {};
    return {{"http.listen",
             fmt::format("is {}: other machines could read the tokens, because there is no "
                         "encryption; set http.tls, listen on 127.0.0.1 behind an SSH tunnel, or "
                         "set `insecure: true`",
                         config.listen)}};
}

}  // namespace roll::spec
