#include "worker/train/model/teacher.hpp"

#include "common/spec/check/tensor.hpp"
#include "worker/tokenizer/same_ids.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_teacher(const std::string& why) { throw RankFailure(2, why); }

// Checks that the teacher predicts the tokens of the trained model.
void check_vocabulary(const std::string& name, const ModelSetup& model, const ModelSetup& teacher) {
    const std::int64_t vocab = model.config.vocab, own = teacher.config.vocab;
    if (own != vocab)
        refuse_teacher(name + " has a vocabulary of " + std::to_string(own) +
                       " tokens, but the trained model has " + std::to_string(vocab) +
                       (own > vocab ? "; set model.vocab_size to " + std::to_string(own) +
                                          ", or name another teacher"
                                    : "; name a teacher with the same vocabulary"));
    if (!teacher.tokenizer || teacher.tokenizer->identity == model.tokenizer->identity) return;
    const auto ids =
        tokenizer::compare_ids(model.tokenizer->tokenizer, teacher.tokenizer->tokenizer);
    if (ids.differ > 0)
        refuse_teacher(
            name + " has another tokenizer: " + std::to_string(ids.differ) + " of " +
            std::to_string(ids.looked_at) +
            " compared token ids decode to different text; name a teacher with the job's "
            "tokenizer");
}

}  // namespace

ModelSetup setup_teacher(const spec::TrainSpec& spec, const ModelSetup& model) {
    ModelSetup teacher = setup_model(fs::path(spec.teacher.from));
    const std::string name = "objective.teacher.from: " + spec.teacher.from;
    if (teacher.config.scores)
        refuse_teacher(name +
                       " is a reward model, which predicts no tokens; name a language model");
    check_vocabulary(name, model, teacher);
    if (spec.teacher.top_k > model.config.vocab)
        refuse_teacher("objective.teacher.top_k is " + std::to_string(spec.teacher.top_k) +
                       "; allowed: at most " + std::to_string(model.config.vocab) +
                       ", the size of the vocabulary");
    for (const spec::Problem& problem :
         spec::tensor_problems(spec.parallel, spec::tensor_sizes(teacher.config)))
        refuse_teacher(name + " does not fit the layout: " + problem.path + " " + problem.message);
    return teacher;
}

ChunkSpec teacher_chunk(const spec::ModelConfig& teacher, const spec::ParallelSpec& parallel,
                        int stage, int tp_rank) {
    return {.layer_begin = stage * teacher.layers / parallel.pp,
            .layer_end = (stage + 1) * teacher.layers / parallel.pp,
            .pre = stage == 0,
            .post = stage + 1 == parallel.pp,
            .tp = parallel.tp,
            .tp_rank = tp_rank,
            .sequence = parallel.sequence && parallel.tp > 1};
}

}  // namespace roll::train
