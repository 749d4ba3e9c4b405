#include "worker/train/data/prepare.hpp"

#include <algorithm>
#include <future>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/json.hpp"
#include "worker/train/data/token_writer.hpp"

namespace roll::data {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kLockAgain = 50ms;
constexpr int kLookEvery = 5;  // tries for the lock: at how far its holder has come
constexpr std::size_t kTogetherMax = 16 << 20;  // bytes of text, and one line more
constexpr int kRules = 1;  // of slices and documents: another number, other token files

// Held until it is destroyed, or its process ends.
class FileLock {
  public:
    // Nothing if goes_on, which is asked at each try, said no.
    static Result<std::optional<FileLock>> take(const fs::path& path,
                                                const std::function<bool(int)>& goes_on) {
        FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
        if (lock.fd_ < 0)
            return fail(ErrorCode::Refused, "cannot create " + path.string() + ": " +
                                                std::generic_category().message(errno));
        for (int tries = 0; ::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0; ++tries) {
            if (errno != EWOULDBLOCK && errno != EINTR)
                return fail(ErrorCode::Failed, "cannot lock " + path.string() + ": " +
                                                   std::generic_category().message(errno));
            if (!goes_on(tries)) return std::optional<FileLock>();
            std::this_thread::sleep_for(kLockAgain);
        }
        return std::optional<FileLock>(std::move(lock));
    }
    FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    FileLock& operator=(FileLock&&) = delete;
    ~FileLock() {
        if (fd_ >= 0) ::close(fd_);
    }

  private:
    explicit FileLock(int fd) : fd_(fd) {}
    int fd_;
};

struct Stamp {
    std::int64_t size = 0;
    std::int64_t modified_ns = 0;
    bool operator==(const Stamp&) const = default;
};

Result<Stamp> stamp_of(const fs::path& source) {
    struct stat info {};
    if (::stat(source.c_str(), &info) != 0)
        return fail(ErrorCode::NotFound,
                    source.string() + ": " + std::generic_category().message(errno));
    return Stamp{info.st_size, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
}

// Two sources of one name lie beside each other: everything that the tokens depend on is in it.
std::string name_of(const fs::path& source, const Stamp& stamp, const PrepareOptions& options) {
    Json key{{"rules", kRules},
             {"source", source.string()},
             {"size", stamp.size},
             {"modified_ns", stamp.modified_ns},
             {"tokenizer", options.tokenizer},
             {"field", options.rules.field},
             {"add_special", options.rules.add_special},
             {"end_token", options.rules.end_token},
             {"slice_bytes", options.rules.slice_bytes},
             {"skip_bad_lines", options.skip_bad_lines}};
    if (options.rules.completions)
        key["fields"] = {options.rules.prompt_field, options.rules.completion_field};
    return source.stem().string() + "-" + to_hex(hash64(key.dump()));
}

// As preprocess_data of Megatron chooses, but for numbers that may be less than 0.
TokenType type_for(std::uint32_t vocab, const EncodeRules& rules) {
    return vocab < 65500 && !rules.completions ? TokenType::Uint16 : TokenType::Int32;
}

// The next slices, one a thread, encoded at once: of lines that are very long, fewer, since a line
// takes some thirty times its bytes while it is encoded.
std::vector<Encoded> encode_next(const TextSource& text, std::size_t begin, int threads) {
    std::vector<std::size_t> bounds = {begin};
    while (std::ssize(bounds) <= threads && bounds.back() < text.size() &&
           bounds.back() - begin < kTogetherMax)
        bounds.push_back(text.slice_end(bounds.back()));
    std::vector<std::future<Encoded>> others;
    for (std::size_t i = 1; i + 1 < bounds.size(); ++i)
        others.push_back(
            std::async(std::launch::async, &TextSource::encode, &text, bounds[i], bounds[i + 1]));
    std::vector<Encoded> encoded = {text.encode(bounds[0], bounds[1])};
    for (auto& other : others) encoded.push_back(other.get());
    return encoded;
}

tl::unexpected<Error> bad_line(const fs::path& source, std::uint64_t line,
                               const std::string& reason) {
    return fail(ErrorCode::InvalidArgument,
                "data: " + source.string() + ", line " + std::to_string(line) + ": " + reason +
                    "; mend it, or let data.on_bad_line: skip leave such lines out");
}

// False: told to stop.
Result<bool> write_all(const TextSource& text, const fs::path& source, TokenWriter& writer,
                       const PrepareOptions& options, const GoOn& go_on) {
    auto sync_due = std::chrono::steady_clock::now() + options.sync_every;
    while (writer.progress().offset < text.size()) {
        if (!go_on({writer.progress().offset, text.size()})) {
            ROLL_TRY_VOID(writer.sync());
            return false;
        }
        for (const Encoded& encoded :
             encode_next(text, writer.progress().offset, options.threads)) {
            if (!encoded.bad.empty() && !options.skip_bad_lines)
                return bad_line(source, writer.progress().lines + encoded.bad[0].line,
                                encoded.bad[0].reason);
            ROLL_TRY_VOID(writer.append(encoded));
        }
        if (std::chrono::steady_clock::now() < sync_due) continue;
        ROLL_TRY_VOID(writer.sync());
        sync_due = std::chrono::steady_clock::now() + options.sync_every;
    }
    return true;
}

// Waits for whoever tokenizes this source now, another rank or another job: how far that one has
// come is told as if it were done here, so that nobody takes those who wait for hung.
Result<std::optional<FileLock>> take_turn(const fs::path& base, std::int64_t size,
                                          const GoOn& go_on) {
    PrepareProgress others{0, static_cast<std::uint64_t>(size)};
    return FileLock::take(fs::path(base) += ".lock", [&](int tries) {
        if (tries % kLookEvery == 0) others.done = std::max(others.done, TokenWriter::synced(base));
        return go_on(others);
    });
}

std::uint64_t lines_in(const fs::path& list) {
    const auto text = read_file(list);
    return text ? static_cast<std::uint64_t>(std::count(text->begin(), text->end(), '\n')) : 0;
}

}  // namespace

Result<std::optional<Prepared>> prepare(const fs::path& source,
                                        const tokenizer::Tokenizer& tokenizer,
                                        const PrepareOptions& options, const GoOn& go_on) {
    ROLL_TRY(const Stamp stamp, stamp_of(source));
    const fs::path base = options.directory / name_of(source, stamp, options);
    const auto with = [&](const char* suffix) { return fs::path(base) += suffix; };
    std::error_code error;
    if (!fs::exists(with(".idx"), error)) {
        ROLL_TRY_VOID(make_directories(options.directory));
        ROLL_TRY(const auto lock, take_turn(base, stamp.size, go_on));
        if (!lock) return std::optional<Prepared>();
        if (!fs::exists(with(".idx"), error)) {
            EncodeRules rules = options.rules;
            rules.json_lines = source.extension() == ".jsonl";
            ROLL_TRY(const TextSource text, TextSource::open(source, tokenizer, rules));
            ROLL_TRY(TokenWriter writer,
                     TokenWriter::open(base, type_for(tokenizer.vocab_size(), rules)));
            const auto whole = write_all(text, source, writer, options, go_on);
            if (!whole && whole.error().code == ErrorCode::InvalidArgument)
                TokenWriter::discard(base);
            if (!whole) return tl::unexpected(whole.error());
            if (!*whole) return std::optional<Prepared>();
            ROLL_TRY(const Stamp after, stamp_of(source));
            if (!(after == stamp)) {
                TokenWriter::discard(base);
                return fail(ErrorCode::Failed, source.string() + " was changed while it was read");
            }
            ROLL_TRY_VOID(writer.finish());
        }
    }
    return std::optional(Prepared{with(".bin"), lines_in(with(".bad"))});
}

}  // namespace roll::data
