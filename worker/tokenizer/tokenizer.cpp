#include "worker/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "common/files.hpp"
#include "common/json.hpp"
#include "worker/tokenizer/added_tokens.hpp"
#include "worker/tokenizer/decoder.hpp"
#include "worker/tokenizer/model.hpp"
#include "worker/tokenizer/normalizer.hpp"
#include "worker/tokenizer/pre_tokenizer.hpp"
#include "worker/tokenizer/unicode.hpp"

namespace roll::tokenizer {
namespace {

constexpr std::uint32_t kByteValues = 256;

Result<void> refuse_if_set(JsonReader& reader, const char* key) {
    if (reader.raw(key).is_null()) return {};
    return fail(ErrorCode::InvalidArgument, std::string(key) + " is not supported");
}

// Returns the number of bytes that a token of a byte-level vocabulary represents; 0 if `text` does
// not begin with these bytes.
std::size_t visible_prefix(const std::string& token, std::string_view text) {
    const auto bytes = spelled_bytes(token);
    return bytes && text.starts_with(*bytes) ? bytes->size() : 0;
}

}  // namespace

class Tokenizer::Impl {
  public:
    // The buffers that a call of encode() uses. Later calls use the same buffers.
    struct Workspace {
        ModelWork model;
        PreTokenizer::Scratch scratch;
    };

    static Result<std::unique_ptr<const Impl>> parse(const Json& json);

    void encode(std::string_view text, std::vector<std::uint32_t>& ids, bool add_special) const;
    std::string decode(std::span<const std::uint32_t> ids, bool skip_special) const;

    std::optional<std::vector<std::size_t>> ends_in(std::string_view text,
                                                    std::span<const std::uint32_t> ids) const;

    std::uint32_t vocab_size() const { return vocab_size_; }
    const std::vector<std::uint32_t>& special_ids() const { return special_ids_; }
    std::optional<std::uint32_t> id_of(std::string_view token) const;
    const Surroundings& surroundings() const { return surroundings_; }

  private:
    Impl(Model model, Normalizer normalizer, PreTokenizer pre_tokenizer, Decoder decoder)
        : model_(std::move(model)),
          normalizer_(std::move(normalizer)),
          pre_tokenizer_(std::move(pre_tokenizer)),
          decoder_(std::move(decoder)) {}
    void index_ids();

    // Encodes text that contains no added token of the first pass. `first` is true if the text is
    // at the start of the input.
    void encode_raw(std::string_view text, bool first, Workspace& work,
                    std::vector<std::uint32_t>& ids) const;
    // Encodes normalized text that contains no added tokens. `head` is passed to
    // PreTokenizer::split().
    void encode_plain(std::string_view text, std::size_t head, Workspace& work,
                      std::vector<std::uint32_t>& ids) const;

    std::unique_ptr<Workspace> borrow() const;
    void give_back(std::unique_ptr<Workspace> work) const;

    Model model_;
    Normalizer normalizer_;
    PreTokenizer pre_tokenizer_;
    Decoder decoder_;
    Surroundings surroundings_ = {};
    AddedTokens added_ = {};
    std::uint32_t vocab_size_ = 0;
    std::vector<std::uint32_t> special_ids_ = {};

    mutable std::mutex mutex_;
    // Workspaces that no call is using now. There are never more workspaces than calls that have
    // run at the same time.
    mutable std::vector<std::unique_ptr<Workspace>> idle_;
};

Result<std::unique_ptr<const Tokenizer::Impl>> Tokenizer::Impl::parse(const Json& json) {
    JsonReader reader(json, "tokenizer");
    reader.raw("version");
    ROLL_TRY_VOID(refuse_if_set(reader, "truncation"));
    ROLL_TRY_VOID(refuse_if_set(reader, "padding"));
    ROLL_TRY(Normalizer normalizer, Normalizer::parse(reader.raw("normalizer")));
    ROLL_TRY(PreTokenizer pre_tokenizer, PreTokenizer::parse(reader.raw("pre_tokenizer")));
    ROLL_TRY(Decoder decoder, Decoder::parse(reader.raw("decoder")));
    ROLL_TRY(Model model, Model::parse(reader.raw("model"), pre_tokenizer.byte_level()));
    std::unique_ptr<Impl> impl(new Impl(std::move(model), std::move(normalizer),
                                        std::move(pre_tokenizer), std::move(decoder)));
    ROLL_TRY(impl->surroundings_, Surroundings::parse(reader.raw("post_processor")));
    ROLL_TRY(impl->added_,
             AddedTokens::parse(reader.raw("added_tokens"), impl->model_, impl->normalizer_));
    impl->index_ids();
    ROLL_TRY_VOID(reader.finish());
    return std::unique_ptr<const Impl>(std::move(impl));
}

void Tokenizer::Impl::index_ids() {
    vocab_size_ = model_.ids_end();
    for (const AddedToken& token : added_.all()) {
        vocab_size_ = std::max(vocab_size_, token.id + 1);
        if (token.special) special_ids_.push_back(token.id);
    }
    std::sort(special_ids_.begin(), special_ids_.end());
}

std::unique_ptr<Tokenizer::Impl::Workspace> Tokenizer::Impl::borrow() const {
    {
        const std::lock_guard lock(mutex_);
        if (!idle_.empty()) {
            std::unique_ptr<Workspace> work = std::move(idle_.back());
            idle_.pop_back();
            return work;
        }
    }
    return std::make_unique<Workspace>();
}

void Tokenizer::Impl::give_back(std::unique_ptr<Workspace> work) const {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(work));
}

void Tokenizer::Impl::encode_plain(std::string_view text, std::size_t head, Workspace& work,
                                   std::vector<std::uint32_t>& ids) const {
    struct Encoder final : WordSink {
        Encoder(const Model& one, ModelWork& buffers, std::vector<std::uint32_t>& out)
            : model(one),
              work(buffers),
              ids(out) {}
        void word(std::string_view text) override { model.encode(text, work, ids); }
        const Model& model;
        ModelWork& work;
        std::vector<std::uint32_t>& ids;
    };
    Encoder encoder(model_, work.model, ids);
    pre_tokenizer_.split(text, head, work.scratch, encoder);
}

void Tokenizer::Impl::encode_raw(std::string_view text, bool first, Workspace& work,
                                 std::vector<std::uint32_t>& ids) const {
    std::string normalized;
    std::size_t head = first ? 1 : 0;
    if (!normalizer_.is_identity()) {
        // Normalization may replace the first character by several words.
        if (first) head = normalizer_.head(text);
        normalized = normalizer_.apply(text);
        text = normalized;
    }
    if (added_.normalized().empty()) return encode_plain(text, head, work, ids);
    added_.normalized().split(
        text, [&](std::size_t begin, std::size_t end, const AddedToken* token) {
            if (token != nullptr) return ids.push_back(token->id);
            encode_plain(text.substr(begin, end - begin), head - std::min(head, begin), work, ids);
        });
}

void Tokenizer::Impl::encode(std::string_view text, std::vector<std::uint32_t>& ids,
                             bool add_special) const {
    std::string repaired;
    if (valid_prefix(text) != text.size()) {
        repaired = replace_broken(text);
        text = repaired;
    }
    std::unique_ptr<Workspace> work = borrow();
    const auto& [before, after] = surroundings_;
    if (add_special) ids.insert(ids.end(), before.begin(), before.end());
    added_.raw().split(text, [&](std::size_t begin, std::size_t end, const AddedToken* token) {
        if (token != nullptr) return ids.push_back(token->id);
        encode_raw(text.substr(begin, end - begin), begin == 0, *work, ids);
    });
    if (add_special) ids.insert(ids.end(), after.begin(), after.end());
    give_back(std::move(work));
}

std::string Tokenizer::Impl::decode(std::span<const std::uint32_t> ids, bool skip_special) const {
    std::vector<std::string> tokens;
    tokens.reserve(ids.size());
    for (const std::uint32_t id : ids) {
        if (const AddedToken* added = added_.find(id)) {
            if (!skip_special || !added->special) tokens.push_back(added->spelling);
        } else if (const std::string* token = model_.token_of(id)) {
            tokens.push_back(*token);
        }
    }
    return decoder_.apply(std::move(tokens));
}

std::optional<std::vector<std::size_t>> Tokenizer::Impl::ends_in(
    std::string_view text, std::span<const std::uint32_t> ids) const {
    if (!pre_tokenizer_.byte_level()) return std::nullopt;
    std::vector<std::size_t> ends;
    ends.reserve(ids.size());
    std::size_t at = 0;
    for (const std::uint32_t id : ids) {
        const AddedToken* const added = added_.find(id);
        const std::string* const token = added == nullptr ? model_.token_of(id) : &added->spelling;
        if (token == nullptr) return std::nullopt;
        const std::string_view rest = text.substr(at);
        const std::size_t size = added == nullptr           ? visible_prefix(*token, rest)
                                 : rest.starts_with(*token) ? token->size()
                                                            : 0;
        if (size == 0) return std::nullopt;
        ends.push_back(at += size);
    }
    return at == text.size() ? std::optional(std::move(ends)) : std::nullopt;
}

std::optional<std::uint32_t> Tokenizer::Impl::id_of(std::string_view token) const {
    for (const AddedToken& added : added_.all())
        if (added.content == token) return added.id;
    return model_.id_of(token);
}

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& path) {
    ROLL_TRY(const std::string text, read_file(path));
    Result<Tokenizer> result = parse(text);
    if (!result) return fail(result.error().code, path.string() + ": " + result.error().message);
    return result;
}

Result<Tokenizer> Tokenizer::parse(std::string_view text) {
    ROLL_TRY(const Json json, parse_json(text));
    ROLL_TRY(std::unique_ptr<const Impl> impl, Impl::parse(json));
    return Tokenizer(std::move(impl));
}

Tokenizer Tokenizer::bytes() { return Tokenizer(nullptr); }

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&& other) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&& other) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::vector<std::uint32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
    std::vector<std::uint32_t> ids;
    encode(text, ids, options);
    return ids;
}

void Tokenizer::encode(std::string_view text, std::vector<std::uint32_t>& ids,
                       EncodeOptions options) const {
    if (impl_ != nullptr) return impl_->encode(text, ids, options.add_special);
    const auto* begin = reinterpret_cast<const std::uint8_t*>(text.data());
    ids.insert(ids.end(), begin, begin + text.size());
}

std::string Tokenizer::decode(std::span<const std::uint32_t> ids, bool skip_special) const {
    if (impl_ != nullptr) return impl_->decode(ids, skip_special);
    std::string text;
    for (const std::uint32_t id : ids)
        if (id < kByteValues) text.push_back(static_cast<char>(id));
    return text;
}

std::optional<std::vector<std::size_t>> Tokenizer::ends_in(
    std::string_view text, std::span<const std::uint32_t> ids) const {
    if (impl_ != nullptr) return impl_->ends_in(text, ids);
    if (ids.size() != text.size()) return std::nullopt;
    std::vector<std::size_t> ends(ids.size());
    std::iota(ends.begin(), ends.end(), std::size_t{1});
    return ends;
}

std::uint32_t Tokenizer::vocab_size() const {
    return impl_ == nullptr ? kByteValues : impl_->vocab_size();
}

std::optional<std::uint32_t> Tokenizer::id_of(std::string_view token) const {
    if (impl_ != nullptr) return impl_->id_of(token);
    if (token.size() != 1) return std::nullopt;
    return static_cast<std::uint8_t>(token.front());
}

const Surroundings& Tokenizer::surroundings() const {
    static const Surroundings none;
    return impl_ == nullptr ? none : impl_->surroundings();
}

const std::vector<std::uint32_t>& Tokenizer::special_ids() const {
    static const std::vector<std::uint32_t> none;
    return impl_ == nullptr ? none : impl_->special_ids();
}

}  // namespace roll::tokenizer
