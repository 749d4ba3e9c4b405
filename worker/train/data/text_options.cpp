#include "worker/train/data/text_options.hpp"

#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// Loads the chat template of the job's tokenizer. If Roll cannot read the template, only files of
// conversations cause an error, because other files do not need it.
void add_template(const spec::TrainSpec& spec, const std::vector<fs::path>& checkpoints,
                  const tokenizer::TextTokenizer& tokenizer, data::EncodeRules& rules) {
    std::vector<fs::path> places = checkpoints;
    places.insert(places.end(), {spec.tokenizer, spec.model.from});
    for (const fs::path& place : places) {
        if (place.empty() || !tokenizer::has_tokenizer(place)) continue;
        if (need(tokenizer::identity_of(place)) != tokenizer.identity) continue;
        auto model = chat::load_template(place);
        if (!model)
            rules.no_chat =
                "the chat template of the tokenizer cannot be read: " + model.error().message;
        if (model && !*model) continue;
        if (model) rules.chat = std::make_shared<const chat::ModelTemplate>(**std::move(model));
        return;
    }
}

chat::TrainOn train_on(spec::TrainOn on) {
    switch (on) {
        case spec::TrainOn::Assistant: return chat::TrainOn::Assistant;
        case spec::TrainOn::All: return chat::TrainOn::All;
        case spec::TrainOn::Last: break;
    }
    return chat::TrainOn::Last;
}

// Converts the job's setting. spec::Truncation::Error needs no value of its own: a job with this
// setting is refused if a document is too long, so no document is ever truncated.
data::Truncate truncate_of(spec::Truncation truncation) {
    switch (truncation) {
        case spec::Truncation::Start: return data::Truncate::Start;
        case spec::Truncation::Prompt: return data::Truncate::Prompt;
        case spec::Truncation::Split: return data::Truncate::Split;
        case spec::Truncation::Drop: return data::Truncate::Drop;
        case spec::Truncation::End:
        case spec::Truncation::Error: break;
    }
    return data::Truncate::End;
}

}  // namespace

data::PrepareOptions text_options(const spec::TrainSpec& spec,
                                  const tokenizer::TextTokenizer& tokenizer,
                                  const std::vector<fs::path>& checkpoints) {
    data::PrepareOptions options;
    if (spec.data.completions) add_template(spec, checkpoints, tokenizer, options.rules);
    options.tokenizer = tokenizer.identity;
    options.rules.field = spec.data.field;
    options.rules.completions = spec.data.completions;
    options.rules.texts = spec.data.texts;
    options.rules.pairs = spec.data.pairs;
    options.rules.labels = spec.data.labels;
    options.rules.label_field = spec.data.label_field;
    options.rules.margin_field = spec.data.margin_field;
    options.rules.prompt_field = spec.data.prompt_field;
    options.rules.completion_field = spec.data.completion_field;
    options.rules.names = {spec.data.columns, spec.data.tags, spec.data.prompt_field,
                           spec.data.completion_field};
    options.rules.render.train_on = train_on(spec.data.train_on);
    options.rules.add_special = spec.data.add_special;
    if (spec.data.append_eos && tokenizer.eos) options.rules.end_token = *tokenizer.eos;
    options.skip_bad_lines = spec.data.skip_bad_lines;
    return options;
}

data::RowRules row_rules(const spec::TrainSpec& spec) {
    return {.seq_length = spec.seq_length,
            .truncate = truncate_of(spec.data.truncate),
            .scores = spec.preference.compares_scores(),
            .margins = !spec.data.margin_field.empty()};
}

data::Cut cut_of(const spec::DataSpec& data) {
    if (data.has_answers()) return data::Cut::BetweenPairs;
    const bool whole = data.completions && data.packing != spec::Packing::Wrapped;
    return whole ? data::Cut::BetweenDocuments : data::Cut::Anywhere;
}

}  // namespace roll::train
