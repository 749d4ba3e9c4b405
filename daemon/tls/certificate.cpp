#include "daemon/tls/certificate.hpp"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include "common/files.hpp"

namespace roll::tls {
namespace {

namespace ssl = boost::asio::ssl;
using boost::asio::buffer;

constexpr auto kLook = std::chrono::seconds(1);

tl::unexpected<Error> unusable(const std::filesystem::path& file, const char* why) {
    return fail(ErrorCode::InvalidArgument, fmt::format("{} {}", file.string(), why),
                "set http.tls in rolld.yaml to files in PEM format");
}

Result<void> check_time(const std::filesystem::path& file, const ssl::context& context) {
    // `x509` is not freed here, because the context owns the certificate.
    const X509* const x509 =
        ::SSL_CTX_get0_certificate(const_cast<ssl::context&>(context).native_handle());
    if (::X509_cmp_current_time(::X509_get0_notAfter(x509)) < 0)
        return unusable(file, "is a certificate that has expired; renew it");
    if (::X509_cmp_current_time(::X509_get0_notBefore(x509)) > 0)
        return unusable(file, "is a certificate that is not valid yet; check the clock");
    return {};
}

Result<std::shared_ptr<ssl::context>> make_context(const std::filesystem::path& certificate,
                                                   const std::filesystem::path& key) {
    ROLL_TRY(const std::string chain, read_regular_file(certificate));
    ROLL_TRY(const std::string secret, read_private_file(key));
    auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
    ::SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
    context->set_options(ssl::context::default_workarounds | SSL_OP_NO_COMPRESSION |
                         SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    boost::system::error_code error;
    // Without a callback, OpenSSL would ask for the password of an encrypted key on the terminal.
    context->set_password_callback([](std::size_t, auto) { return std::string(); });
    context->use_certificate_chain(buffer(chain), error);
    if (error) return unusable(certificate, "has no certificate that OpenSSL can read");
    context->use_private_key(buffer(secret), ssl::context::pem, error);
    if (error)
        return unusable(
            key, "has no key that OpenSSL can read, or its key does not belong to the certificate");
    ROLL_TRY_VOID(check_time(certificate, *context));
    return context;
}

}  // namespace

Result<Certificate> Certificate::read(const std::filesystem::path& certificate,
                                      const std::filesystem::path& key) {
    Certificate made(certificate, key);
    ROLL_TRY_VOID(made.read_files());
    return made;
}

std::string Certificate::stamp() const {
    std::string text;
    for (const auto& file : {certificate_, key_}) {
        struct stat status {};
        if (::stat(file.c_str(), &status) != 0) continue;
        // Use st_ctim, because a change of the permissions changes no other field.
        text += fmt::format("{} {} {} {} ", status.st_ino, status.st_size, status.st_ctim.tv_sec,
                            status.st_ctim.tv_nsec);
    }
    return text;
}

Result<void> Certificate::read_files() {
    stamp_ = stamp();
    looked_ = Clock::now();
    ROLL_TRY(context_, make_context(certificate_, key_));
    return {};
}

void Certificate::reload() {
    if (const auto read = read_files())
        spdlog::info("the certificate {} was read again", certificate_.string());
    else
        spdlog::error("{}; roll-web continues with the previous certificate", read.error().message);
}

std::shared_ptr<ssl::context> Certificate::context() {
    if (Clock::now() - looked_ >= kLook) {
        looked_ = Clock::now();
        if (stamp() != stamp_) reload();
    }
    return context_;
}

}  // namespace roll::tls
