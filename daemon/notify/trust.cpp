#include "daemon/notify/trust.hpp"

#include <boost/asio/ip/address.hpp>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

namespace roll::notify {

namespace ssl = boost::asio::ssl;

Result<void> trust(ssl::context& context, const Target& target) {
    ::SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
    boost::system::error_code error;
    context.set_verify_mode(ssl::verify_peer, error);
    if (!error && target.ca_file.empty()) context.set_default_verify_paths(error);
    if (!error && !target.ca_file.empty()) context.load_verify_file(target.ca_file, error);
    if (!error) return {};
    return fail(ErrorCode::Failed,
                target.ca_file.string() + " has no certificate that OpenSSL can read");
}

bool expect_host(TlsStream& stream, const std::string& host) {
    // OpenSSL's functions need a handle that is not const.
    SSL* const handle = stream.native_handle();
    X509_VERIFY_PARAM* const wanted = ::SSL_get0_param(handle);
    boost::system::error_code error;
    boost::asio::ip::make_address(host, error);
    if (!error) return ::X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) == 1;
    ::X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return ::X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size()) == 1 &&
           ::SSL_set_tlsext_host_name(handle, host.c_str()) == 1;
}

const char* refusal_of(const TlsStream& stream) {
    const long code =
        ::SSL_get_verify_result(const_cast<TlsStream&>(stream).native_handle());  // NOLINT
    switch (code) {
        case X509_V_OK: return nullptr;
        case X509_V_ERR_HOSTNAME_MISMATCH:
        case X509_V_ERR_IP_ADDRESS_MISMATCH: return "the server's certificate is for another host";
        case X509_V_ERR_CERT_HAS_EXPIRED: return "the server's certificate has expired";
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
        case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
            return "no trusted authority has signed the server's certificate; if the authority is "
                   "private, set `ca_file`";
        default: return ::X509_verify_cert_error_string(code);
    }
}

}  // namespace roll::notify
