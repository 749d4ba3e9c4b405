#include "worker/train/data/corpus/prepare.hpp"

#include <algorithm>
#include <deque>
#include <future>

#include <sys/stat.h>

#include "common/files.hpp"
#include "common/hash.hpp"
#include "common/json.hpp"
#include "common/json_records.hpp"
#include "worker/train/data/corpus/chat_source.hpp"
#include "worker/train/data/corpus/file_lock.hpp"
#include "worker/train/data/corpus/token_writer.hpp"

namespace roll::data {
namespace {

namespace fs = std::filesystem;

// take_turn() tries to take the lock again and again. After this number of tries, it reads the
// progress of the process that holds the lock.
constexpr int kLookEvery = 5;
// Number of bytes of text that are encoded at a time. If a single slice is larger, this slice is
// encoded alone.
constexpr std::size_t kTogetherMax = 16 << 20;
// Version of the rules that divide text into slices and documents. The version is part of the token
// files' names, so that new files are made when the rules change.
constexpr int kRules = 1;
constexpr int kChatRules = 1;  // version of the rules that turn conversations into tokens
// Version of the rules that turn prompt-completion pairs into tokens. Earlier versions encoded
// prompt and completion separately, and their token files record no version.
constexpr int kPairRules = 2;
constexpr int kPreferenceRules = 1;  // version of the rules that turn pairs of answers into tokens

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

// Returns all inputs on which the tokens depend, except the text itself.
Json rules_of(const PrepareOptions& options) {
    Json key{{"rules", kRules},
             {"tokenizer", options.tokenizer},
             {"field", options.rules.field},
             {"add_special", options.rules.add_special},
             {"end_token", options.rules.end_token},
             {"slice_bytes", options.rules.slice_bytes},
             {"skip_bad_lines", options.skip_bad_lines}};
    if (options.rules.completions)
        key["fields"] = {options.rules.prompt_field, options.rules.completion_field};
    if (options.rules.has_answers()) {
        key["preference"] = {{"rules", kPreferenceRules}};
        if (options.rules.labels) key["preference"]["label"] = options.rules.label_field;
        if (!options.rules.margin_field.empty())
            key["preference"]["margin"] = options.rules.margin_field;
        if (options.rules.chat) key["preference"]["template"] = options.rules.chat->identity;
        if (!options.rules.names.empty())
            key["preference"]["names"] = {options.rules.names.columns, options.rules.names.tags};
        return key;
    }
    if (options.rules.completions && options.rules.texts) key["texts"] = true;
    const auto train_on = static_cast<int>(options.rules.render.train_on);
    if (options.rules.completions && !options.rules.form)
        key["pairs"] = {{"rules", kPairRules}, {"train_on", train_on}};
    if (options.rules.form)
        key["chat"] = {{"rules", kChatRules},
                       {"template", options.rules.chat->identity},
                       {"form", chat::name_of(*options.rules.form)},
                       {"train_on", train_on}};
    if (options.rules.form && !options.rules.names.empty())
        key["chat"]["names"] = {options.rules.names.columns, options.rules.names.tags};
    return key;
}

// Returns the name of the token file. The name contains a hash of everything on which the tokens
// depend, so that one source can have several different token files.
std::string name_of(const fs::path& source, const Stamp& stamp, const PrepareOptions& options) {
    Json key = rules_of(options);
    key["source"] = source.string();
    // Earlier versions read a .json file as one text. This key changes the name, so that the token
    // files of those versions are not used.
    if (source.extension() == ".json") key["records"] = true;
    key["size"] = stamp.size;
    key["modified_ns"] = stamp.modified_ns;
    return source.stem().string() + "-" + to_hex(hash64(key.dump()));
}

// Returns the element type of the token file, as Megatron's preprocess_data chooses it. For
// completions, the type is always Int32, because context-only tokens are stored as negative
// numbers.
TokenType type_for(std::uint32_t vocab, const EncodeRules& rules) {
    return vocab < 65500 && !rules.completions ? TokenType::Uint16 : TokenType::Int32;
}

// Encodes the slices of a text in parallel, one per thread, and returns them in order. Encodes
// fewer slices at a time if lines are very long, because encoding a line needs about thirty times
// the line's size in memory.
class SliceEncoder {
  public:
    SliceEncoder(const TextSource& text, std::size_t begin, int threads)
        : text_(text),
          next_(begin),
          threads_(threads) {
        start();
    }

    bool is_done() const { return ahead_.empty(); }

    // Returns the next slice. While the caller uses this slice, the threads encode the slices after
    // it. Requires !is_done().
    Encoded take() {
        Encoded encoded = ahead_.front().encoded.get();
        ahead_.pop_front();
        start();
        return encoded;
    }

  private:
    struct Slice {
        std::size_t begin = 0;
        std::future<Encoded> encoded;
    };

    void start() {
        while (next_ < text_.size() && std::ssize(ahead_) < threads_ &&
               (ahead_.empty() || next_ - ahead_.front().begin < kTogetherMax)) {
            const std::size_t end = text_.slice_end(next_);
            ahead_.push_back(
                {next_, std::async(std::launch::async, &TextSource::encode, &text_, next_, end)});
            next_ = end;
        }
    }

    const TextSource& text_;
    std::size_t next_;  // offset of the first slice that is not encoded yet
    int threads_;
    std::deque<Slice> ahead_ = {};
};

tl::unexpected<Error> bad_line(const fs::path& source, const std::string& unit, std::uint64_t line,
                               const std::string& reason) {
    return fail(ErrorCode::InvalidArgument,
                "data: " + source.string() + ", " + unit + " " + std::to_string(line) + ": " +
                    reason + "; correct this " + unit +
                    ", or set `data.on_bad_line: skip` to leave out such " + unit + "s");
}

// Encodes the whole text and writes its tokens. Returns false if `go_on` returned false.
Result<bool> write_all(const TextSource& text, const fs::path& source, TokenWriter& writer,
                       const PrepareOptions& options, const GoOn& go_on) {
    auto sync_due = std::chrono::steady_clock::now() + options.sync_every;
    SliceEncoder slices(text, writer.progress().offset, std::max(options.threads, 1));
    while (!slices.is_done()) {
        if (!go_on({writer.progress().offset, text.size()})) {
            ROLL_TRY_VOID(writer.sync());
            return false;
        }
        const Encoded encoded = slices.take();
        if (!encoded.bad.empty() && !options.skip_bad_lines)
            return bad_line(source, text.unit(), writer.progress().lines + encoded.bad[0].line,
                            encoded.bad[0].reason);
        ROLL_TRY_VOID(writer.append(encoded));
        if (std::chrono::steady_clock::now() < sync_due) continue;
        ROLL_TRY_VOID(writer.sync());
        sync_due = std::chrono::steady_clock::now() + options.sync_every;
    }
    return true;
}

// Waits for the lock while another rank or job tokenizes this source. Meanwhile, reports the
// progress of that work as this rank's progress, so that this rank does not seem to hang.
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

// A text for which a token file is to be made.
struct Work {
    const fs::path& source;
    const tokenizer::Tokenizer& tokenizer;
    const PrepareOptions& options;
    const GoOn& go_on;
    fs::path base;  // path of the token file without ".bin"
    Stamp stamp;
    std::string samples;  // sample_hash of the text

    EncodeRules rules() const {
        EncodeRules rules = options.rules;
        rules.records = has_records(source);
        return rules;
    }
};

enum class Made { No, Yes, OfAnotherText };

// Returns whether the token file exists and was made from this text. Earlier versions wrote no
// record. A token file without a record counts as made from this text, because the file's name
// contains the size and time of the text.
Result<Made> is_made(const Work& work) {
    if (!path_exists(with_suffix(work.base, ".idx"))) return Made::No;
    ROLL_TRY(const auto record, read_record(work.base));
    const bool other = record && record->source_samples != work.samples;
    return other ? Made::OfAnotherText : Made::Yes;
}

// Writes the record of a complete token file. Returns false if `go_on` returned false. `text_hash`
// 0 means unknown.
Result<bool> record_tokens(const Work& work, std::uint64_t text_hash) {
    ROLL_TRY(const MappedFile bin, MappedFile::open(with_suffix(work.base, ".bin")));
    const auto hash = whole_hash(bin.bytes(), work.go_on);
    if (!hash) return false;
    ROLL_TRY_VOID(write_record(
        work.base, {work.source.string(), rules_of(work.options), work.samples,
                    text_hash == 0 ? "" : to_hex(text_hash), sample_hash(bin.bytes()), *hash}));
    return true;
}

// Makes the token file. Returns false if `go_on` returned false.
Result<bool> make(const Work& work) {
    const EncodeRules rules = work.rules();
    ROLL_TRY(const TextSource text, TextSource::open(work.source, work.tokenizer, rules));
    ROLL_TRY(TokenWriter writer,
             TokenWriter::open(work.base, type_for(work.tokenizer.vocab_size(), rules)));
    const auto whole = write_all(text, work.source, writer, work.options, work.go_on);
    if (!whole && whole.error().code == ErrorCode::InvalidArgument) TokenWriter::discard(work.base);
    if (!whole || !*whole) return whole;
    ROLL_TRY(const Stamp after, stamp_of(work.source));
    if (!(after == work.stamp)) {
        TokenWriter::discard(work.base);
        return fail(ErrorCode::Failed, work.source.string() + " was changed while it was read",
                    "submit the job again when no program writes this file");
    }
    ROLL_TRY_VOID(writer.sync());
    ROLL_TRY(const bool recorded, record_tokens(work, writer.progress().text_hash));
    if (!recorded) return false;
    ROLL_TRY_VOID(writer.finish());
    return true;
}

// Makes the token file, or waits until another process has made it. Returns nullopt if `go_on`
// returned false.
Result<std::optional<Prepared>> make_or_wait(const Work& work) {
    ROLL_TRY_VOID(make_directories(work.options.directory));
    ROLL_TRY(const auto lock, take_turn(work.base, work.stamp.size, work.go_on));
    if (!lock) return std::optional<Prepared>();
    // check again, because the previous holder of the lock may have made the file
    ROLL_TRY(const Made made, is_made(work));
    if (made == Made::OfAnotherText) {
        std::error_code ignored;
        fs::remove(with_suffix(work.base, ".idx"), ignored);
        TokenWriter::discard(work.base);
    }
    ROLL_TRY(const auto record, read_record(work.base));
    if (made != Made::Yes) {
        ROLL_TRY(const bool whole, make(work));
        if (!whole) return std::optional<Prepared>();
    } else if (!record) {
        ROLL_TRY(const bool recorded, record_tokens(work, 0));
        if (!recorded) return std::optional<Prepared>();
    }
    return std::optional(
        Prepared{.bin = with_suffix(work.base, ".bin"), .was_stale = made == Made::OfAnotherText});
}

Result<std::optional<Prepared>> find_made(const fs::path& source, const PrepareOptions& options) {
    std::vector<std::pair<fs::path, TokenRecord>> found;
    std::vector<fs::path> places = options.elsewhere;
    places.insert(places.begin(), options.directory);
    std::vector<Json> possible = {rules_of(options)};
    if (possible[0].contains("pairs") &&
        options.rules.render.train_on == chat::TrainOn::Assistant) {
        possible.push_back(possible[0]);
        possible.back().erase("pairs");  // earlier versions did not record this key
    }
    for (const chat::Form form : chat::kForms) {
        if (!options.rules.chat || options.rules.has_answers()) break;
        PrepareOptions of_form = options;
        of_form.rules.form = form;
        possible.push_back(rules_of(of_form));
    }
    for (const fs::path& place : places)
        for (const Json& rules : possible)
            for (auto& one : find_records(place, source.string(), rules))
                found.push_back(std::move(one));
    const auto wanted = std::ranges::find_if(found, [&](const auto& one) {
        return std::ranges::find(options.hashes, one.second.hash) != options.hashes.end();
    });
    if (found.empty())
        return fail(ErrorCode::NotFound,
                    source.string() + ": No such file, and " + options.directory.string() +
                        " has no tokens that were made from this file; correct the path");
    if (wanted == found.end() && found.size() > 1)
        return fail(ErrorCode::InvalidArgument,
                    source.string() + " no longer exists, and " + options.directory.string() +
                        " has tokens of " + std::to_string(found.size()) +
                        " versions of this file, for example " + found[0].first.string() +
                        ".bin; name the right .bin in data.train");
    const auto& [base, record] = wanted == found.end() ? found.front() : *wanted;
    return std::optional(
        Prepared{with_suffix(base, ".bin"), lines_in(with_suffix(base, ".bad")), record, true});
}

// Returns the form of the conversations in a text; nullopt if the text has no conversations. Fails
// if the text has conversations, but the tokenizer has no chat template.
Result<std::optional<chat::Form>> form_of(const fs::path& source, const MappedFile& file,
                                          const EncodeRules& rules) {
    if (!rules.completions || rules.pairs) return std::optional<chat::Form>();
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                                file.bytes().size());
    const bool list = source.extension() == ".json" && is_json_list(text);
    const auto form = conversation_in(first_record(text, list), rules);
    if (form && !rules.chat)
        return fail(ErrorCode::InvalidArgument,
                    "data: " + source.string() + " has conversations in the form " +
                        chat::name_of(*form) + ", and " + rules.no_chat +
                        "; set `tokenizer` to a directory whose tokenizer_config.json has a "
                        "chat_template, or that has a chat_template.jinja");
    return form;
}

}  // namespace

Result<std::optional<Prepared>> prepare(const fs::path& source,
                                        const tokenizer::Tokenizer& tokenizer,
                                        const PrepareOptions& given, const GoOn& go_on) {
    const auto stamp = stamp_of(source);
    PrepareOptions options = given;
    options.rules.form = std::nullopt;
    if (!stamp && stamp.error().code == ErrorCode::NotFound) return find_made(source, options);
    if (!stamp) return tl::unexpected(stamp.error());
    ROLL_TRY(const MappedFile text, MappedFile::open(source));
    ROLL_TRY(options.rules.form, form_of(source, text, options.rules));
    // A template may write the current time. Use the file's time instead, so that the same file
    // always gives the same tokens.
    options.rules.render.now = stamp->modified_ns / 1'000'000'000;
    const Work work{source,
                    tokenizer,
                    options,
                    go_on,
                    options.directory / name_of(source, *stamp, options),
                    *stamp,
                    sample_hash(text.bytes())};
    ROLL_TRY(const Made made, is_made(work));
    ROLL_TRY(auto record, read_record(work.base));
    std::optional<Prepared> prepared(Prepared{.bin = with_suffix(work.base, ".bin")});
    if (made != Made::Yes || !record) {
        ROLL_TRY(prepared, make_or_wait(work));
        if (!prepared) return prepared;
        ROLL_TRY(record, read_record(work.base));
        if (!record)
            return fail(ErrorCode::Failed,
                        with_suffix(work.base, ".made").string() +
                            " was deleted while the tokens were prepared",
                        "submit the job again");
    }
    prepared->form = options.rules.form;
    prepared->bad_lines = lines_in(with_suffix(work.base, ".bad"));
    prepared->record = *std::move(record);
    return prepared;
}

Result<std::optional<bool>> verify_text(const fs::path& source,
                                        const tokenizer::Tokenizer& tokenizer,
                                        const PrepareOptions& options, const TokenRecord& record,
                                        const GoOn& go_on) {
    if (record.text_hash.empty()) return std::optional<bool>();
    EncodeRules rules = options.rules;
    rules.records = has_records(source);
    ROLL_TRY(const TextSource text, TextSource::open(source, tokenizer, rules));
    std::uint64_t hash = 0;
    for (std::size_t at = 0; at < text.size();) {
        if (!go_on({at, text.size()})) return std::optional<bool>();
        const std::size_t end = text.slice_end(at);
        hash = join_hashes(hash, text.hash_of(at, end));
        at = end;
    }
    return std::optional(to_hex(hash) == record.text_hash);
}

}  // namespace roll::data
