#include "worker/train/data/preview.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/json_records.hpp"
#include "worker/train/data/corpus/parquet.hpp"
#include "worker/train/data/corpus/text_source.hpp"
#include "worker/train/data/corpus/tokens.hpp"
#include "worker/train/data/scratch_tokens.hpp"
#include "worker/train/data/text_options.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBadShown = 3;

// Returns a view of encoded tokens with the element type Int32.
data::Tokens as_tokens(std::span<const std::uint32_t> ids) {
    return {std::as_bytes(ids).data(), ids.size(), data::TokenType::Int32};
}

// Returns the tokens of a document's piece, and their text.
PreviewDocument document_of(std::span<const std::uint32_t> ids, const data::Piece& piece,
                            bool completions, const tokenizer::Tokenizer& tokenizer) {
    PreviewDocument document{.size = std::ssize(ids), .learned = 0, .tokens = {}, .parts = {}};
    std::vector<std::uint32_t> run;
    const auto end_run = [&] {
        if (!run.empty())
            document.parts.push_back({tokenizer.decode(run), document.tokens.back().learned});
        run.clear();
    };
    for (const std::uint32_t id : ids.subspan(piece.begin, piece.size)) {
        const auto stored = static_cast<std::int32_t>(id);
        const bool learned = !completions || stored >= 0;
        if (!document.tokens.empty() && document.tokens.back().learned != learned) end_run();
        run.push_back(learned ? id : static_cast<std::uint32_t>(data::only_read(stored)));
        document.tokens.push_back({run.back(), learned});
        document.learned += learned;
    }
    end_run();
    return document;
}

// Returns `rules` with the values of two fields that depend on the file: `records` (from the file's
// name) and `form` (from the file's first record).
data::EncodeRules file_rules(const fs::path& path, data::EncodeRules rules) {
    rules.records = data::has_records(path);
    if (!rules.completions || rules.has_answers()) return rules;
    const MappedFile file = need(MappedFile::open(path));
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                                file.bytes().size());
    const bool list = path.extension() == ".json" && is_json_list(text);
    rules.form = data::conversation_in(first_record(text, list), rules);
    if (rules.form && !rules.chat)
        throw RankFailure(2, path.string() + " has conversations, but " + rules.no_chat +
                                 "; name a model that has one with --model DIR");
    return rules;
}

PreviewFile preview_of(const fs::path& path, const spec::TrainSpec& spec, std::int64_t documents,
                       const tokenizer::TextTokenizer& tokenizer,
                       const data::PrepareOptions& options) {
    const data::EncodeRules rules = file_rules(path, options.rules);
    const auto source = need(data::TextSource::open(path, tokenizer.tokenizer, rules));
    PreviewFile file;
    file.path = path;
    if (rules.form) file.form = chat::name_of(*rules.form);
    if (source.size() == 0) throw RankFailure(2, path.string() + " is empty");
    const data::Encoded encoded = source.encode(0, source.slice_end(0));
    file.whole = encoded.end == source.size();
    for (std::size_t i = 0; i < std::min(encoded.bad.size(), kBadShown); ++i)
        file.bad.push_back(std::string(source.unit()) + " " + std::to_string(encoded.bad[i].line) +
                           ": " + encoded.bad[i].reason);
    const bool cuts = spec.seq_length > 0 && cut_of(spec.data) != data::Cut::Anywhere;
    const data::RowRules rows = row_rules(spec);
    std::size_t begin = 0;
    bool is_label = false, is_rejected = false;
    std::vector<std::size_t> ends = encoded.document_ends;
    // If a long .txt continues after the first slice, the slice has no document end. Its tokens are
    // then shown as one document.
    if (ends.empty() && !encoded.ids.empty()) ends.push_back(encoded.ids.size());
    for (const std::size_t end : ends) {
        auto ids = std::span(encoded.ids).subspan(begin, end - begin);
        begin = end;
        // Every second document is a rejected answer. Leave out the margin that follows it.
        if (!rules.margin_field.empty() && std::exchange(is_rejected, !is_rejected))
            ids = ids.first(ids.size() - data::kMarginTokens);
        if (rules.labels && std::exchange(is_label, !is_label)) continue;
        if (cuts && rows.drops(ids.size())) {
            ++file.dropped;
            continue;
        }
        const bool splits = !cuts || rows.truncate == data::Truncate::Split;
        const data::Piece all{0, ids.size()},
            kept = splits ? all : kept_piece(as_tokens(ids), rows);
        PreviewDocument document = document_of(ids, kept, rules.completions, tokenizer.tokenizer);
        ++file.documents;
        file.tokens += std::ssize(document.tokens);
        file.learned += document.learned;
        file.cut += document.size > std::ssize(document.tokens);
        if (std::ssize(file.shown) < documents) file.shown.push_back(std::move(document));
    }
    return file;
}

}  // namespace

std::vector<PreviewFile> preview(const spec::TrainSpec& spec, std::int64_t documents) {
    const auto tokenizer = job_tokenizer(spec);
    const data::PrepareOptions options = text_options(spec, *tokenizer, {});
    const Scratch scratch;
    std::vector<PreviewFile> files;
    for (const fs::path path : spec.data.train) {
        if (path.extension() == ".bin")
            throw RankFailure(
                2, path.string() +
                       " has tokens and no text; a preview reads .jsonl, .json, .parquet and .txt");
        fs::path lines = path;
        if (data::is_parquet(path))
            lines = *of_disk(data::lines_of_parquet(
                path, scratch.path, [](const data::PrepareProgress&) { return true; }));
        files.push_back(preview_of(lines, spec, documents, *tokenizer, options));
        files.back().path = path;
    }
    return files;
}

OrderedJson preview_json(const std::vector<PreviewFile>& files) {
    OrderedJson json{{"schema", "roll.data_preview/1"}, {"files", OrderedJson::array()}};
    for (const PreviewFile& file : files) {
        OrderedJson one{{"path", file.path},         {"form", file.form},
                        {"whole_file", file.whole},  {"documents", file.documents},
                        {"documents_cut", file.cut}, {"documents_dropped", file.dropped},
                        {"tokens", file.tokens},     {"tokens_learned", file.learned},
                        {"bad_lines", file.bad},     {"shown", OrderedJson::array()}};
        if (file.form.empty()) one["form"] = nullptr;
        for (const PreviewDocument& document : file.shown) {
            OrderedJson shown{{"tokens_before_cut", document.size},
                              {"tokens_learned", document.learned},
                              {"tokens", OrderedJson::array()},
                              {"parts", OrderedJson::array()}};
            for (const PreviewToken& token : document.tokens)
                shown["tokens"].push_back({{"id", token.id}, {"learned", token.learned}});
            for (const PreviewPart& part : document.parts)
                shown["parts"].push_back({{"text", part.text}, {"learned", part.learned}});
            one["shown"].push_back(std::move(shown));
        }
        json["files"].push_back(std::move(one));
    }
    return json;
}

}  // namespace roll::train
