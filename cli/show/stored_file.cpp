#include "cli/show/stored_file.hpp"

#include <chrono>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatience{20};  // maximum time that rolld may take to restart

// Ignores unknown fields, because a newer rolld may send them.
Result<protocol::JobFileReply> read_reply(const Json& json) {
    protocol::JobFileReply reply;
    protocol::FieldReader reader(json, protocol::JobFileArgs::kOperation.reply);
    protocol::fields(reader, reply);
    ROLL_TRY_VOID(reader.finish(false));
    return reply;
}

}  // namespace

Result<protocol::JobFileReply> FilesOfRolld::ask(const protocol::JobFileArgs& args) {
    if (error_) return tl::unexpected(*error_);
    auto reply = daemon_.ask_patiently(args, kPatience);
    if (reply) return read_reply(*reply);
    Error error = std::move(reply).error();
    if (error.message.starts_with("rolld knows no operation"))
        error = {
            ErrorCode::Refused,
            fmt::format("this rolld is too old to send the files of job {}", args.id),
            "run rollctl without --remote on a machine that has the job's output directory, or "
            "ask the operator to update rolld"};
    if (error.code != ErrorCode::NotFound) error_ = error;
    return tl::unexpected(std::move(error));
}

Result<void> FilesOfRolld::check() const {
    if (error_) return tl::unexpected(*error_);
    return {};
}

Result<protocol::JobFileReply> StoredFile::look() const {
    protocol::JobFileArgs args = args_;
    args.bytes = 0;
    return rolld_->ask(args);
}

std::uint64_t StoredFile::size() const {
    if (rolld_ != nullptr) return look().value_or(protocol::JobFileReply{}).size;
    std::error_code error;
    const auto size = fs::file_size(path_, error);
    return error ? 0 : size;
}

std::optional<Time> StoredFile::written() const {
    if (rolld_ != nullptr) {
        const auto reply = look();
        return reply ? std::optional(Time(Time::duration(reply->written))) : std::nullopt;
    }
    std::error_code error;
    const auto written = fs::last_write_time(path_, error);
    if (error) return std::nullopt;
    return std::chrono::floor<Time::duration>(fs::file_time_type::clock::to_sys(written));
}

std::string StoredFile::read(std::uint64_t at, std::uint64_t count) const {
    std::string bytes;
    if (rolld_ == nullptr) {
        std::ifstream in(path_, std::ios::binary);
        bytes.resize(count);
        in.seekg(static_cast<std::streamoff>(at));
        in.read(bytes.data(), static_cast<std::streamsize>(count));
        bytes.resize(static_cast<std::size_t>(in.gcount()));
        return bytes;
    }
    while (bytes.size() < count) {
        protocol::JobFileArgs args = args_;
        args.from = at + bytes.size();
        args.bytes = count - bytes.size();
        const auto reply = rolld_->ask(args);
        // If the file is now shorter than `from`, rolld answers from another offset.
        if (!reply || reply->from != *args.from || reply->next == reply->from) break;
        bytes += protocol::bytes_of_text(reply->text, reply->latin1);
    }
    return bytes;
}

}  // namespace roll::cli
