#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "common/json.hpp"
#include "common/spec/job/job.hpp"
#include "common/spec/schema/schema.hpp"
#include "common/spec/train/convert.hpp"
#include "common/spec/train/train.hpp"
#include "tests/common/spec/job_files.hpp"

namespace roll::spec {
namespace {

class CheckJob : public JobFiles {};

TEST_F(CheckJob, EveryBatchOfAScheduleFitsThePipeline) {
    Json json = train_file();
    json["model"]["num_hidden_layers"] = 4;
    json["parallel"] = {{"pp", 2}, {"vpp", 2}};
    json["train"]["micro_batch_size"] = 1;
    json["train"]["batch_size_schedule"] = "0:2 1K:8";
    EXPECT_EQ(problems(json), "");
    json["train"]["batch_size_schedule"] = "0:1 1K:8";
    EXPECT_NE(problems(json).find("1 micro-batches for each replica"), std::string::npos)
        << problems(json);
}

TEST_F(CheckJob, SecretsAreNamesThatEnvDoesNotHave) {
    Json job = {{"name", "x"}, {"kind", "command"}, {"command", {"true"}}};
    job["secrets"] = {"TOKEN", "OTHER"};
    EXPECT_EQ(parse(job).spec.secrets, (std::vector<std::string>{"TOKEN", "OTHER"}));
    job["env"] = {{"TOKEN", "v"}};
    EXPECT_EQ(problems(job),
              "env.TOKEN is also in `secrets`; remove it from `env` or from `secrets`\n");
    job.erase("env");
    job["secrets"] = {"NO-NAME"};
    EXPECT_NE(problems(job).find("secrets[0]"), std::string::npos) << problems(job);
    job["secrets"] = std::vector<std::string>(33, "TOKEN");
    EXPECT_EQ(problems(job), "secrets has 33 names; allowed: at most 32\n");
}

TEST_F(CheckJob, ReadsASmallTrainFile) {
    const ParsedJob job = parse(train_file());
    ASSERT_TRUE(job.ok()) << problems(train_file());
    EXPECT_EQ(job.spec.kind, JobKind::Train);
    EXPECT_EQ(job.spec.resources.time.count(), 1800);
    EXPECT_EQ(job.spec.resources.world_size(), 2);
    EXPECT_EQ(job.spec.output, base + "/runs/kjv-{id}");
    const auto train = train_spec(job.spec.document.text());
    ASSERT_TRUE(train) << train.error().message;
    EXPECT_EQ(train->data.train, std::vector{base + "/corpus.txt"});
    EXPECT_EQ(train->parallel.dp, 2);
    EXPECT_EQ(Json::parse(train->model.hf_config)["vocab_size"], 256);
}

// The document contains every default, so that a later version cannot change a queued job. The
// defaults of the schema must therefore equal those of TrainSpec.
TEST_F(CheckJob, DefaultsInTheSchemaAreThoseOfTheTrainSpec) {
    const auto filled = train_spec(parse(train_file()).spec.document.text());
    ASSERT_TRUE(filled);
    Json bare = train_file();
    bare["model"]["vocab_size"] = 256;
    const auto assumed = train_spec(bare.dump());
    ASSERT_TRUE(assumed);
    const auto values = [](const TrainSpec& s) {
        const OptimizerSpec& o = s.optimizer;
        return std::tuple(
            s.tokenizer, s.data.valid_fraction, s.parallel.dp, s.parallel.schedule, s.seed,
            s.valid_every, o.lr, o.min_lr, o.warmup_steps, o.schedule, o.weight_decay, o.clip_grad,
            std::tuple(o.beta1, o.beta2, o.eps, s.precision, s.normalize, s.sample.every,
                       s.sample.max_tokens, s.checkpoint_every, s.checkpoint_keep, s.export_format,
                       s.export_dtype, s.checkpoint_buffer_mib),
            std::tuple(o.init_lr, o.decay_steps, o.wsd_decay_steps, o.wsd_decay, o.weight_decay_end,
                       o.weight_decay_schedule, s.peak_tflops, s.bad_steps.on_not_finite,
                       s.bad_steps.on_spike, s.metrics.csv, s.metrics.tensorboard,
                       s.early_stop.patience, s.early_stop.min_delta, s.checkpoint_keep_best,
                       s.checkpoint_keep_every, s.checkpoint_keep_optimizer,
                       s.checkpoint_first_step, s.checkpoint_wait_for_space, s.valid_at_start,
                       s.deterministic, s.metrics.grad_zeros, o.decays));
    };
    EXPECT_EQ(values(*filled), values(*assumed));
}

TEST_F(CheckJob, ALossScaleIsForFp16AndHasTheSchemasDefaults) {
    Json json = train_file();
    json["train"]["loss_scale"] = Json::object();
    EXPECT_EQ(problems(json),
              "train.loss_scale is only for precision fp16, but train.precision is fp32; remove "
              "loss_scale, or set precision: fp16\n");
    json["train"]["precision"] = "fp16";
    const auto scale = train_spec(parse(json).spec.document.text())->loss_scale;
    const LossScaleSpec assumed;
    EXPECT_EQ(std::tuple(scale.initial, scale.growth_interval, scale.backoff, scale.hysteresis,
                         scale.min),
              std::tuple(assumed.initial, assumed.growth_interval, assumed.backoff,
                         assumed.hysteresis, assumed.min));
    json["train"]["loss_scale"] = {{"initial", 4}, {"min", 8}};
    EXPECT_EQ(problems(json),
              "train.loss_scale.min is 8; allowed: at most loss_scale.initial, which is 4\n");
}

TEST_F(CheckJob, ATrainFileIsATokenizeFileToo) {
    Json json = train_file();
    json["kind"] = "tokenize";
    json["resources"] = {{"nodes", 4}, {"slots_per_node", 3}, {"gpus_per_node", 8}};
    const ParsedJob job = parse(json);
    ASSERT_TRUE(job.ok());
    EXPECT_EQ(job.spec.kind, JobKind::Tokenize);
    EXPECT_FALSE(job.spec.trains());
    EXPECT_EQ(job.spec.resources, (Resources{.nodes = 1, .slots_per_node = 3}));
    EXPECT_TRUE(job.spec.export_document.empty());
    const auto text = tokenize_spec(job.spec.document.text());
    ASSERT_TRUE(text);
    EXPECT_EQ(text->data.train, train_spec(parse(train_file()).spec.document.text())->data.train);
    const ParsedJob small = parse({{"name", "t"}, {"kind", "tokenize"}, {"data", json["data"]}});
    ASSERT_TRUE(small.ok());
    EXPECT_EQ(tokenize_spec(small.spec.document.text())->tokenizer, "bytes");
    EXPECT_EQ(problems({{"name", "t"}, {"kind", "tokenize"}}),
              "data is missing; allowed: a mapping\n");
}

TEST_F(CheckJob, ReadingADocumentAgainGivesTheSameJob) {
    const ParsedJob once = parse(train_file());
    const ParsedJob twice = check_job(Json::parse(once.spec.document.text()), "/elsewhere");
    EXPECT_TRUE(twice.ok());
    EXPECT_EQ(twice.spec, once.spec);
}

TEST_F(CheckJob, ReportsEveryProblemAtOnceWithPathValueAndWhatIsAllowed) {
    Json json = train_file();
    json["parallel"] = {{"tpp", 2}, {"dp", 0}};
    json["train"]["steps"] = "ten";
    json["train"]["lr"] = 0.1;
    json["train"]["precision"] = "fp31";
    json["train"].erase("seq_length");
    json["resources"]["time"] = "90";
    json["data"]["train"] = {"missing.txt", "notes.doc"};
    json["data"]["valid"] = 1.0;
    json["model"]["num_attention_heads"] = 5;
    json["command"] = {"true"};
    json["after"] = {"ok:1", "done:2"};
    json["export"] = 7;
    EXPECT_EQ(
        problems(json),
        "after[1] is \"done:2\"; allowed: ok:ID, any:ID, failed:ID or exported:ID\n"
        "data.train[1] is \"notes.doc\"; allowed: a file .txt, .jsonl, .json, .parquet or .bin\n"
        "data.valid is 1.0; allowed: a number, at least 0, below 1, or a mapping\n"
        "export is 7; allowed: none, or a mapping\n"
        "parallel.dp is 0; allowed: an integer, 1 to 1000000\n"
        "parallel.tpp is an unknown key; did you mean parallel.tp?\n"
        "resources.time is \"90\"; allowed: a duration such as 90s, 1h 30m, 1-12:00:00 or "
        "HH:MM:SS\n"
        "train.seq_length is missing; allowed: an integer, 1 to 1000000000\n"
        "train.precision is \"fp31\"; allowed: fp32, fp64, bf16 or fp16; did you mean fp32?\n"
        "train.steps is \"ten\"; allowed: an integer, 1 to 1000000000\n"
        "train.lr is an unknown key; did you mean train.optimizer.lr?\n"
        "command is not allowed in a job of kind train\n" +
            fmt::format("data.train[0] is {0}/missing.txt, which does not exist\n"
                        "data.train[1] is {0}/notes.doc, which does not exist\n",
                        base) +
            "model.hidden_size is 64; allowed: a multiple of num_attention_heads 5\n");
}

TEST_F(CheckJob, AModelFromADirectoryBringsItsOwnSizes) {
    Json json = train_file();
    json["model"] = {{"from", "start"}};
    EXPECT_EQ(problems(json), "model.from is " + base + "/start, which does not exist\n");
    std::filesystem::create_directory(base + "/start");
    ASSERT_EQ(problems(json), "");
    const auto train = train_spec(parse(json).spec.document.text());
    ASSERT_TRUE(train) << train.error().message;
    EXPECT_EQ(train->model.from, base + "/start");
    EXPECT_EQ(train->model.hf_config, "{}");
    json["model"]["hidden_size"] = 64;
    EXPECT_EQ(problems(json),
              "model.hidden_size cannot be set with model.from, whose config determines it\n");
    json["model"] = {{"from", "start"}, {"residual_dropout", 0}};
    ASSERT_EQ(problems(json), "");
    EXPECT_EQ(train_spec(parse(json).spec.document.text())->model.hf_config,
              R"({"residual_dropout":0})");
}

TEST_F(CheckJob, RefusesByNameWhatIsNotBuiltYet) {
    const std::vector<std::tuple<const char*, Json, const char*>> cases = {
        {"/parallel/ep", 4, "parallel.ep 4 is not supported yet; supported: 1\n"},
        {"/train/precision", "fp8",
         "train.precision fp8 is not supported yet; supported: fp32, fp64, bf16, fp16\n"},
        {"/model/hidden_act", "relu",
         "model.hidden_act relu is not supported yet; supported: silu\n"},
        {"/checkpoint/format", "nemo",
         "checkpoint.format nemo is not supported yet; supported: mca, torch_dist\n"},
        {"/export/format", "nemo", "export.format nemo is not supported yet; supported: hf\n"},
    };
    for (const auto& [pointer, value, expected] : cases) {
        Json json = train_file();
        json[Json::json_pointer(pointer)] = value;
        EXPECT_EQ(problems(json), expected);
    }
    Json split = train_file();
    split["parallel"]["tp"] = 2;
    EXPECT_EQ(problems(split), "");
    split["model"]["num_attention_heads"] = 5;
    split["model"]["hidden_size"] = 80;
    split["model"]["intermediate_size"] = 121;
    EXPECT_EQ(problems(split),
              "parallel.tp is 2, which does not divide model.num_attention_heads 5; allowed with "
              "this model: 1\n"
              "parallel.tp is 2, which does not divide model.intermediate_size 121; allowed with "
              "this model: 1\n");
    Json on_gpus = train_file();
    on_gpus["resources"] = {{"nodes", 1}, {"gpus_per_node", 2}};
    on_gpus["parallel"]["zero"] = 1;
    EXPECT_EQ(parse(on_gpus).spec.needs, std::vector<std::string>{"gpu_layouts"});
    on_gpus["parallel"]["zero"] = 0;
    on_gpus["train"]["optimizer"]["kind"] = "adamw_8bit";
    EXPECT_EQ(parse(on_gpus).spec.needs, std::vector<std::string>{"gpu_packed"});
    EXPECT_EQ(problems({{"name", "m"},
                        {"kind", "convert"},
                        {"convert", {{"source", base}, {"target", "out"}, {"to", "nemo"}}}}),
              "");
}

TEST_F(CheckJob, RefusesSizesThatCannotWork) {
    const std::vector<std::tuple<const char*, Json, const char*>> cases = {
        {"/parallel/dp", 4,
         "parallel dp 4 x tp 1 x pp 1 x cp 1 = 4 ranks, but resources give 1 node x 2 slots = 2 "
         "ranks; set dp to 2 or resources.slots_per_node to 4\n"},
        {"/parallel",
         {{"pp", 2}, {"vpp", 2}},
         "parallel.pp is 2, vpp 2, which does not divide the 2 layers of the model "
         "(num_hidden_layers); the nearest valid settings: pp 2 with vpp 1\n"},
        {"/train/global_batch_size", 6,
         "train.global_batch_size is 6; allowed: a multiple of micro_batch_size 2 x dp 2 = 4, such "
         "as 4 or 8\n"},
        {"/model/num_key_value_heads", 3,
         "model.num_key_value_heads is 3; allowed: a divisor of num_attention_heads 4\n"},
        {"/model/hidden_size", 60,
         "model.hidden_size gives heads of width 15; the rotary embedding needs an even width\n"},
        {"/model/max_position_embeddings", 16,
         "train.seq_length is 32; allowed: at most model.max_position_embeddings 16\n"},
        {"/model/vocab_size", 255,
         "model.vocab_size is 255; allowed: at least 256 with the tokenizer `bytes`\n"},
        {"/train/optimizer",
         {{"warmup_steps", 11}},
         "train.optimizer.warmup_steps is 11; allowed: at most train.steps 10\n"},
        {"/train/optimizer",
         {{"lr", 0.1}, {"min_lr", 0.2}},
         "train.optimizer.min_lr is 0.2; allowed: at most lr 0.1\n"},
        {"/train/optimizer",
         {{"lr", 0.1}, {"init_lr", 0.2}},
         "train.optimizer.init_lr is 0.2; allowed: at most lr 0.1\n"},
        {"/train/optimizer",
         {{"warmup_steps", 6}, {"decay_steps", 5}},
         "train.optimizer.warmup_steps is 6; allowed: at most decay_steps 5\n"},
        {"/train/optimizer",
         {{"schedule", "wsd"}, {"warmup_steps", 4}, {"wsd_decay_steps", 7}},
         "train.optimizer.wsd_decay_steps is 7; allowed: 1 to 6, the number of steps after the "
         "warm-up (train.steps is 10), because schedule is wsd\n"},
        {"/train/early_stop",
         {{"patience", 3}},
         "train.early_stop.patience is 3, but train.valid_every is 0, so nothing is validated "
         "during training; allowed: 0, or set train.valid_every\n"},
        {"/checkpoint",
         {{"every", 20}, {"keep_every", 30}},
         "checkpoint.keep_every is 30; allowed: a multiple of checkpoint.every 20\n"},
        {"/checkpoint",
         {{"keep_every", 30}},
         "checkpoint.keep_every is 30, but checkpoint.every is 0; allowed: 0, or set "
         "checkpoint.every\n"},
        {"/train/optimizer",
         {{"weight_decay_end", 0.2}},
         "train.optimizer.weight_decay_end is 0.2; allowed: weight_decay, which is 0.1, because "
         "weight_decay_schedule is constant\n"},
    };
    for (const auto& [pointer, value, expected] : cases) {
        Json json = train_file();
        json[Json::json_pointer(pointer)] = value;
        EXPECT_EQ(problems(json), expected);
    }
}

TEST_F(CheckJob, WhatCountsValidationsNeedsSomethingHeldOut) {
    for (const Json& valid : {Json(0), Json(0.0), Json::object()}) {
        Json json = train_file();
        json["data"]["valid"] = valid;
        json["train"]["valid_every"] = 5;
        EXPECT_EQ(problems(json), "");
        json["train"]["early_stop"] = {{"patience", 3}};
        json["checkpoint"]["keep_best"] = true;
        EXPECT_EQ(problems(json),
                  "train.early_stop.patience is 3, but data.valid holds out no data; allowed: 0, "
                  "or set data.valid\n"
                  "checkpoint.keep_best is true, but data.valid holds out no data; allowed: false, "
                  "or set data.valid\n");
    }
}

TEST_F(CheckJob, TheExportIsOfTheBestCheckpointWhereOneIsKept) {
    const auto of = [&](const Json& json) {
        const ParsedJob job = parse(json);
        EXPECT_TRUE(job.ok());
        const Json convert = Json::parse(job.spec.export_document)["convert"];
        EXPECT_EQ(train_spec(job.spec.document.text())->export_best, convert["of"] == "best");
        return convert["of"];
    };
    Json json = train_file();
    EXPECT_EQ(of(json), "last");
    json["checkpoint"]["keep_best"] = true;
    json["train"]["valid_every"] = 5;
    EXPECT_EQ(of(json), "best");
    json["export"]["of"] = "last";
    EXPECT_EQ(of(json), "last");
    json["checkpoint"]["keep_best"] = false;
    json["export"]["of"] = "best";
    EXPECT_EQ(problems(json),
              "export.of is `best`, but checkpoint.keep_best is false; set export.of to `last`, or "
              "checkpoint.keep_best to true\n");
    Json convert = {
        {"name", "c"}, {"kind", "convert"}, {"convert", {{"target", "o"}, {"of", "best"}}}};
    convert["convert"]["source_job"] = 4;
    EXPECT_TRUE(convert_spec(parse(convert).spec.document.text())->best);
    convert["convert"].erase("source_job");
    convert["convert"]["source"] = base;
    EXPECT_EQ(problems(convert),
              "convert.of is `best`, but a directory has no best checkpoint; set convert.of to "
              "`last`, or use source_job instead of source\n");
}

TEST_F(CheckJob, ReadsCommandConvertAndResumeFiles) {
    const ParsedJob command =
        parse({{"name", "c"}, {"kind", "command"}, {"command", {"echo", "hi"}}});
    ASSERT_TRUE(command.ok());
    EXPECT_EQ(Json::parse(command.spec.document.text())["workdir"], base);
    EXPECT_TRUE(command.spec.export_document.empty());
    EXPECT_EQ(problems({{"name", "c"},
                        {"kind", "command"},
                        {"command", {"true"}},
                        {"env", {{"A", "x"}, {"B", 1}, {"C", Json::array()}}}}),
              "env.C is []; allowed: a string, a number or true or false\n");

    const ParsedJob convert = parse(
        {{"name", "c"}, {"kind", "convert"}, {"convert", {{"source_job", 4}, {"target", "out"}}}});
    ASSERT_TRUE(convert.ok());
    EXPECT_EQ(convert.spec.source_job, JobId{4});
    EXPECT_EQ(convert_spec(convert.spec.document.text())->target, base + "/out");

    EXPECT_EQ(problems({{"name", "m"}, {"kind", "merge"}, {"merge", {{"base", "x"}}}}),
              fmt::format("merge.adapters is missing; allowed: a list\n"
                          "merge.target is missing; allowed: a string\n"
                          "merge.base is {}/x, which does not exist\n",
                          base));
    std::filesystem::create_directories(base + "/x");
    const ParsedJob merge =
        parse({{"name", "m"},
               {"kind", "merge"},
               {"merge", {{"base", "x"}, {"adapters", {"x"}}, {"target", "out"}, {"tp", 2}}}});
    ASSERT_TRUE(merge.ok());
    const ConvertSpec merged = convert_spec(merge.spec.document.text()).value();
    EXPECT_EQ(merged.adapters, std::vector<std::string>{base + "/x"});
    EXPECT_EQ(merged.tp, 2);
    EXPECT_EQ(convert_spec(document_of(merged)).value(), merged);

    Json json = train_file();
    json["kind"] = "resume";
    EXPECT_EQ(problems(json), "resume is missing; allowed: a mapping\n");
    json["resume"] = {{"job", 12}};
    json["export"] = "none";
    const ParsedJob resume = parse(json);
    ASSERT_TRUE(resume.ok()) << problems(json);
    EXPECT_EQ(resume.spec.source_job, JobId{12});
    EXPECT_TRUE(resume.spec.export_document.empty());
    // These files are missing, but the checkpoint and its token files have all that is needed.
    json["data"]["train"] = {"gone.jsonl"};
    json["tokenizer"] = "gone";
    EXPECT_EQ(problems(json), "");
}

TEST_F(CheckJob, SurvivesWhatIsNoJobFileAtAll) {
    for (const char* text : {"[]", "null", "7", R"({"kind":{}})", R"({"model":[]})",
                             R"({"kind":"train","model":{"hidden_size":-1},"train":3})"}) {
        EXPECT_FALSE(check_job(Json::parse(text), base).ok()) << text;
    }
}

TEST(JobSchema, EveryKeyIsDescribedAndNamesOnlyWhatTheCheckerReads) {
    const std::set<std::string> read = {"$schema",
                                        "title",
                                        "description",
                                        "type",
                                        "properties",
                                        "required",
                                        "additionalProperties",
                                        "enum",
                                        "const",
                                        "minimum",
                                        "maximum",
                                        "exclusiveMinimum",
                                        "exclusiveMaximum",
                                        "minLength",
                                        "pattern",
                                        "items",
                                        "minItems",
                                        "oneOf",
                                        "if",
                                        "then",
                                        "else",
                                        "allOf",
                                        "default",
                                        "format",
                                        "x-allowed",
                                        "x-built",
                                        "x-path",
                                        "x-words",
                                        "x-also",
                                        "x-instead",
                                        "x-foreign",
                                        "x-exists"};
    const std::function<void(const OrderedJson&, const std::string&)> walk =
        [&](const OrderedJson& schema, const std::string& path) {
            if (!schema.is_object()) return;
            for (const auto& [keyword, value] : schema.items()) {
                EXPECT_TRUE(read.contains(keyword)) << path << ": " << keyword;
            }
            if (schema.contains("properties")) {
                for (const auto& [key, field] : schema["properties"].items()) {
                    EXPECT_TRUE(field.contains("description")) << path << "." << key;
                    walk(field, path + "." + key);
                }
            }
            if (schema.contains("items")) walk(schema["items"], path + "[]");
        };
    walk(OrderedJson::parse(read_file(JOB_SCHEMA).value()), "");
}

TEST_F(CheckJob, TheTokenizerIsTheModelsOwnUnlessItIsNamed) {
    const auto document = [&](const Json& file) {
        const ParsedJob parsed = parse(file);
        return parsed.ok() ? Json::parse(parsed.spec.document.text())
                           : Json(parsed.problems.at(0).message);
    };
    Json json = train_file();
    json.erase("tokenizer");
    EXPECT_EQ(document(json)["tokenizer"], "bytes");
    EXPECT_EQ(document(json)["model"]["vocab_size"], 256);
    std::filesystem::create_directories(base + "/hf");
    json["tokenizer"] = "hf/";
    json["model"].erase("vocab_size");
    EXPECT_EQ(document(json)["tokenizer"], base + "/hf");
    EXPECT_FALSE(document(json)["model"].contains("vocab_size")) << "the tokenizer says";
    json["model"] = {{"from", "hf"}};
    json.erase("tokenizer");
    EXPECT_EQ(document(json)["tokenizer"], base + "/hf");
    json["tokenizer"] = "bytes";
    EXPECT_EQ(document(json)["tokenizer"], "bytes");
    json["tokenizer"] = "none";
    EXPECT_EQ(document(json), "is " + base + "/none, which does not exist");
    std::filesystem::create_symlink("loop", base + "/loop");
    json["tokenizer"] = "loop";
    EXPECT_EQ(document(json), "is " + base + "/loop: Too many levels of symbolic links");
}

TEST_F(CheckJob, ValidationSetsHaveNames) {
    std::ofstream(base + "/other.jsonl") << "{}";
    Json json = train_file();
    json["data"]["valid"] = {{"tail", 0.25}, {"other", "other.jsonl"}, {"both", {"corpus.txt"}}};
    const ParsedJob job = parse(json);
    ASSERT_TRUE(job.ok()) << problems(json);
    const DataSpec data = train_spec(job.spec.document.text())->data;
    EXPECT_EQ(data.valid_fraction, 0.25);
    EXPECT_EQ(data.valid_name, "tail");
    EXPECT_EQ(data.track, "both") << "the first by name";
    ASSERT_EQ(data.valid_files.size(), 2U);
    EXPECT_EQ(data.valid_files[0].name, "both");
    EXPECT_EQ(data.valid_files[1].paths, std::vector{base + "/other.jsonl"});
    json["data"]["track"] = "tail";
    EXPECT_EQ(train_spec(parse(json).spec.document.text())->data.track, "tail");
    json["data"].erase("track");
    json["data"]["valid"] = {{"a b", 0.1}, {"c", 0.2}, {"d", "none.txt"}, {"e", 1.5}};
    EXPECT_EQ(
        problems(json),
        "data.valid.e is 1.5; allowed: a number, at least 0, below 1, or a file .txt, .jsonl, "
        ".json, .parquet or .bin, or a list\n"
        "data.valid.d is " +
            base +
            "/none.txt, which does not exist\n"
            "data.valid.a b is not a valid name of a set; allowed: 1 to 64 letters, digits, "
            "dots, dashes and underscores\n"
            "data.valid gives more than one set as a fraction of the training files; "
            "allowed: at most one\n");
    json["data"]["valid"] = true;
    EXPECT_TRUE(problems(json).starts_with("data.valid is true; allowed:"));
}

}  // namespace
}  // namespace roll::spec
