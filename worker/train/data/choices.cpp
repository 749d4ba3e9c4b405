#include "worker/train/data/choices.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "worker/train/data/corpus/tokens.hpp"
#include "worker/train/data/pair_batches.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

// number of micro-batches that a replica computes in one call
constexpr std::size_t kMicrobatchesAtOnce = 16;

using Row = std::vector<std::int64_t>;  // token ids; a token of the context is stored as ~id

// Returns the ids of a text, preceded by the tokens that the tokenizer puts before a text.
std::vector<std::uint32_t> ids_of(const tokenizer::Tokenizer& tokenizer, const std::string& text) {
    std::vector<std::uint32_t> ids = tokenizer.surroundings().before;
    tokenizer.encode(text, ids, {.add_special = false});
    return ids;
}

// Returns the tokens of a context followed by a choice. Spaces at the end of the context belong to
// the choice. If the context alone is encoded as n tokens, the choice begins after the first n
// tokens.
Row encoded_row(std::string context, std::string choice, const tokenizer::TextTokenizer& tokenizer,
                std::int64_t length_most) {
    const std::size_t end = context.find_last_not_of(" \t\n\r\f\v") + 1;
    choice.insert(0, context.substr(end));
    context.resize(end);
    std::vector<std::uint32_t> whole = ids_of(tokenizer.tokenizer, context + choice);
    std::size_t read = ids_of(tokenizer.tokenizer, context).size();
    if (read == 0) {
        const auto first = tokenizer.bos ? tokenizer.bos : tokenizer.eos;
        if (!first)
            throw RankFailure(2,
                              "a question has no text before its choices, and the tokenizer has no "
                              "BOS or EOS token to use instead; set the task's description or "
                              "doc_to_text to a text that is not empty");
        whole.insert(whole.begin(), *first);
        read = 1;
    }
    read = std::min(read, whole.size());
    Row row(whole.begin(), whole.end());
    for (std::size_t i = 0; i < read; ++i) row[i] = data::only_read(row[i]);
    const auto most = static_cast<std::size_t>(length_most) + 1;
    if (row.size() > most) row.erase(row.begin(), row.end() - static_cast<std::ptrdiff_t>(most));
    return row;
}

Microbatch batch_of(std::span<const Row> rows, const AnswerPass& pass) {
    std::vector<data::Tokens> answers;
    for (const Row& row : rows)
        answers.push_back(
            {std::as_bytes(std::span(row)).data(), row.size(), data::TokenType::Int64});
    return answer_batch(answers, {.rows = {.seq_length = pass.length_most}, .vocab = pass.vocab});
}

// Divides the rows into micro-batches of consecutive rows.
std::vector<std::span<const Row>> divided(std::span<const Row> rows, const AnswerPass& pass) {
    std::vector<std::span<const Row>> groups;
    while (!rows.empty()) {
        std::size_t count = 0;
        std::int64_t tokens = 0;
        while (count < rows.size() &&
               (count == 0 || tokens + std::ssize(rows[count]) <= pass.batch_tokens))
            tokens += std::ssize(rows[count++]);
        groups.push_back(rows.first(count));
        rows = rows.subspan(count);
    }
    return groups;
}

// Computes the log-probabilities of the choices in the micro-batches `groups`. Replica r computes
// the micro-batches r, r + replicas, r + 2 * replicas, and so on. A sum over the replicas then
// gives every replica all results.
void compute(std::span<const std::span<const Row>> groups, const AnswerPass& pass,
             std::vector<double>& log_probs) {
    const std::size_t replicas = static_cast<std::size_t>(pass.replicas);
    std::vector<Microbatch> own;
    std::vector<std::size_t> begins{0};
    for (const auto& group : groups) begins.push_back(begins.back() + group.size());
    const std::size_t each = (groups.size() + replicas - 1) / replicas;
    const auto group_of = [&](std::size_t k) {
        return k * replicas + static_cast<std::size_t>(pass.replica);
    };
    for (std::size_t k = 0; k < each; ++k)
        own.push_back(batch_of(
            group_of(k) < groups.size() ? groups[group_of(k)] : std::span<const Row>(), pass));
    const at::Tensor found_KS = pass.log_probs(own);
    const at::Tensor all = at::zeros({static_cast<std::int64_t>(begins.back())}, at::kDouble);
    for (std::size_t k = 0; k < each && group_of(k) < groups.size(); ++k) {
        const auto size = std::ssize(groups[group_of(k)]);
        all.narrow(0, static_cast<std::int64_t>(begins[group_of(k)]), size)
            .copy_(found_KS[static_cast<std::int64_t>(k)].narrow(0, 0, size));
    }
    if (pass.sum) pass.sum(all);
    const auto* values = all.const_data_ptr<double>();
    log_probs.insert(log_probs.end(), values, values + all.numel());
}

std::size_t characters(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }));
}

// Returns the standard error of a mean of zeros and ones.
double standard_error(double mean, std::int64_t count) {
    return count < 2 ? 0 : std::sqrt(mean * (1 - mean) / static_cast<double>(count - 1));
}

}  // namespace

std::optional<TaskScore> score_task(const Task& task, const tokenizer::TextTokenizer& tokenizer,
                                    const AnswerPass& pass) {
    std::vector<Row> rows;
    for (const Question& question : task.questions)
        for (const std::string& choice : question.choices)
            rows.push_back(encoded_row(question.context, task.delimiter + choice, tokenizer,
                                       pass.length_most));
    const std::vector<std::span<const Row>> groups = divided(rows, pass);
    std::vector<double> found;
    const std::size_t at_once = kMicrobatchesAtOnce * static_cast<std::size_t>(pass.replicas);
    for (std::size_t begin = 0; begin < groups.size(); begin += at_once) {
        if (pass.ends()) return std::nullopt;
        if (pass.progress) pass.progress(std::ssize(found), std::ssize(rows));
        compute(std::span(groups).subspan(begin, std::min(at_once, groups.size() - begin)), pass,
                found);
    }
    TaskScore score{.name = task.name,
                    .questions = std::ssize(task.questions),
                    .fewshot = task.fewshot,
                    .log_probs = {}};
    auto next = found.begin();
    std::int64_t right = 0, right_norm = 0;
    for (const Question& question : task.questions) {
        const auto end = next + std::ssize(question.choices);
        std::vector<double> own(next, end), norm;
        next = end;
        for (std::size_t i = 0; i < own.size(); ++i)
            norm.push_back(own[i] / static_cast<double>(characters(question.choices[i])));
        const auto best = [](const std::vector<double>& of) {
            return std::max_element(of.begin(), of.end()) - of.begin();
        };
        right += best(own) == question.answer;
        right_norm += best(norm) == question.answer;
        score.log_probs.push_back(std::move(own));
    }
    const auto count = static_cast<double>(score.questions);
    score.acc = static_cast<double>(right) / count;
    score.acc_norm = static_cast<double>(right_norm) / count;
    score.acc_stderr = standard_error(score.acc, score.questions);
    score.acc_norm_stderr = standard_error(score.acc_norm, score.questions);
    return score;
}

OrderedJson scores_json(const std::vector<TaskScore>& scores, bool log_probs) {
    OrderedJson json = OrderedJson::object();
    for (const TaskScore& score : scores) {
        OrderedJson& of = json[score.name];
        of = {{"questions", score.questions},
              {"num_fewshot", score.fewshot},
              {"acc", score.acc},
              {"acc_stderr", score.acc_stderr},
              {"acc_norm", score.acc_norm},
              {"acc_norm_stderr", score.acc_norm_stderr}};
        if (log_probs) of["log_probs"] = score.log_probs;
    }
    return json;
}

}  // namespace roll::train
