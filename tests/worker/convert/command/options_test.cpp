#include "worker/convert/command/options.hpp"

#include <gtest/gtest.h>

#include "worker/convert/request.hpp"

namespace roll::convert {
namespace {

Result<CommandLine> parse(std::vector<std::string> arguments) {
    return parse_command_line(arguments);
}

Request request(std::vector<std::string> arguments) {
    return std::get<ConvertCommand>(parse(std::move(arguments)).value()).request;
}

TEST(Options, ReadOurNamesAndRolls) {
    const Request ours = request({"convert", "a", "b", "--tp", "2", "--vpp=3", "--dtype", "bf16",
                                  "--max-shard-size", "512MiB", "--overwrite"});
    EXPECT_EQ(ours.layout.tp, 2);
    EXPECT_EQ(ours.layout.vpp, 3);
    EXPECT_EQ(ours.dtype, tensor::DType::BF16);
    EXPECT_EQ(ours.shard_bytes, 512 << 20);
    EXPECT_TRUE(ours.overwrite);
    const Request rolls = request({"--checkpoint_path", "a", "--tensor_model_parallel_size", "2",
                                   "--fp16", "--moe-grouped-gemm", "False"});
    EXPECT_EQ(rolls.source, "a");
    EXPECT_EQ(rolls.target, "./output");
    EXPECT_EQ(rolls.layout.tp, 2);
    EXPECT_EQ(rolls.dtype, tensor::DType::F16);
    EXPECT_EQ(rolls.grouped_experts, false);
}

TEST(Options, AJobAsksForWhatTheCommandLineDid) {
    for (const std::vector<std::string>& line :
         {std::vector<std::string>{"convert", "a", "b"},
          {"convert",     "a",
           "b",           "--to",
           "mca",         "--tp",
           "2",           "--pp",
           "3",           "--vpp",
           "4",           "--ep",
           "5",           "--etp",
           "1",           "--bf16",
           "--overwrite", "--max-shard-size",
           "7",           "--moe-grouped-gemm",
           "false",       "--transformer-impl",
           "local",       "--layout",
           "E|t|L"},
          {"convert", "a", "b", "--to", "nemo", "--name", "seven.b", "--strictness", "log_all",
           "--state", "fp32_param", "--reuse", "old"},
          {"merge", "a", "c", "b", "--unmerge", "--dist_ckpt_strictness", "ignore_all"},
          {"merge", "a", "c", "b", "--fp16", "--convert_model_max_length", "99",
           "--account_for_loss_in_pipeline_split", "--decoder-first-pipeline-num-layers", "3",
           "--num_layers_in_last_pipeline_stage", "2"},
          {"convert", "a", "b", "--to", "torch_dist", "--mtp-layer-name", "mtp_model_layer"},
          {"convert", "a", "b", "--to", "torch_dist", "--optimizer", "--optimizer-kind",
           "dp_reshardable", "--bucket-size", "40000000", "--grad-dtype", "bf16"}}) {
        const spec::ConvertSpec spec = spec_of(request(line));
        const spec::ConvertSpec read = spec::convert_spec(spec::document_of(spec)).value();
        EXPECT_EQ(read, spec);
        const Request job = request_of(read).value();
        EXPECT_EQ(spec_of(job), spec);
        EXPECT_TRUE(job.verify);
    }
    spec::ConvertSpec wrong;
    wrong.to = "gguf";
    EXPECT_FALSE(request_of(wrong));
}

TEST(Options, NamesWithStars) {
    const NameRule rule = parse_renaming("model.*.x=*.y").value();
    EXPECT_EQ(renamed_by(rule, "model.a.b.x"), "a.b.y");
    EXPECT_EQ(renamed_by(rule, "model.x"), std::nullopt);
    EXPECT_EQ(renamed_by({"*.b", std::nullopt}, "a.b"), "");
    EXPECT_EQ(renamed_by({"a", std::nullopt}, "ab"), std::nullopt);
    EXPECT_EQ(renamed_by(parse_renaming("*a*=*-*").value(), "xaya"), "x-ya");
    for (const char* wrong : {"a", "=a", "a=", "a*=b"})
        EXPECT_FALSE(parse_renaming(wrong)) << wrong;
}

TEST(Options, AFlagTakesOnlyTrueOrFalseAfterIt) {
    EXPECT_EQ(request({"convert", "--bf16", "a", "b"}).dtype, tensor::DType::BF16);
    EXPECT_EQ(request({"convert", "--bf16", "false", "a", "b"}).dtype, std::nullopt);
}

TEST(Options, AnArgumentThatChangesNoFileIsNamed) {
    const auto line = parse({"convert", "a", "b", "--recompute_granularity", "full"}).value();
    EXPECT_EQ(std::get<ConvertCommand>(line).ignored,
              std::vector<std::string>{"recompute-granularity"});
}

TEST(Options, VirtualStagesFollowFromALayoutString) {
    EXPECT_EQ(request({"convert", "a", "b", "--pp", "2", "--layout", "Et|t|t|tL"}).layout.vpp, 2);
}

TEST(Options, RefuseWhatIsNotThere) {
    const std::vector<std::vector<std::string>> wrong = {
        {"convert", "a"},
        {"convert", "a", "b", "c"},
        {"convert", "a", "b", "--tp", "0"},
        {"convert", "a", "b", "--tp", "2", "--tensor-model-parallel-size", "2"},
        {"convert", "a", "b", "--bf16", "--fp16"},
        {"convert", "a", "b", "--dtype", "int8"},
        {"convert", "a", "b", "--to", "gguf"},
        {"convert", "a", "b", "--nonsense"},
        {"convert", "a", "b", "--tp"},
        {"convert", "a", "b", "--optimizer-kind", "dp_zero_gather_scatter"},
        {"convert", "a", "b", "--bucket-size", "0"},
        {"convert", "a", "b", "--grad-dtype", "fp8"},
        {"inspect"},
        {"inspect", "a", "--tp", "2"},
        {"diff", "a"},
        {"frobnicate"},
        {"--json"},
        {"--launch", "a", "b"}};
    for (const auto& arguments : wrong) EXPECT_FALSE(parse(arguments)) << arguments.back();
}

TEST(Options, ReadSizes) {
    const auto bytes = [](const char* text) {
        return request({"convert", "a", "b", "--max-shard-size", text}).shard_bytes;
    };
    EXPECT_EQ(bytes("5GB"), 5'000'000'000);
    EXPECT_EQ(bytes("2KiB"), 2048);
    EXPECT_EQ(bytes("7"), 7);
    for (const char* wrong : {"", "0", "GB", "-1GB", "1XB", "99999999TB"})
        EXPECT_FALSE(parse({"convert", "a", "b", "--max-shard-size", wrong})) << wrong;
}

TEST(Options, AnErrorNamesTheWordAndWhatIsAllowed) {
    const auto message = [](std::vector<std::string> arguments) {
        return parse(std::move(arguments)).error().message;
    };
    EXPECT_EQ(message({"convrt", "a", "b"}), "unknown command `convrt`; did you mean `convert`?");
    EXPECT_EQ(message({"convert", "a", "b", "--overwrit"}),
              "unknown option `--overwrit`; did you mean `--overwrite`?");
    EXPECT_EQ(message({"inspect", "a", "--tp=2"}), "unknown option `--tp`");
    EXPECT_EQ(message({"convert", "a", "b", "c"}), "unexpected argument `c`");
    EXPECT_EQ(message({"convert", "a", "b", "--tp", "0"}), "--tp: must be 1 to 4096, not 0");
    EXPECT_EQ(message({"convert", "a", "b", "--tp"}), "--tp needs one value and can be given once");
    EXPECT_EQ(message({"convert", "a", "b", "--bf16=maybe"}),
              "--bf16=maybe: must be true or false");
    EXPECT_EQ(message({"diff", "a"}), "B is required");
    EXPECT_EQ(parse({"diff", "a"}).error().hint, "roll-convert diff --help");
}

TEST(Options, ADirectoryMayHaveTheNameOfACommand) {
    EXPECT_EQ(request({"convert", "diff", "merge"}).target, "merge");
    EXPECT_EQ(request({"merge", "merge", "check", "convert"}).adapters.front(), "check");
}

TEST(Options, ROLLsNoneIsTheDefault) {
    EXPECT_EQ(request({"convert", "a", "b", "--vpp", "None", "--tp", "2"}).layout.vpp, 1);
}

}  // namespace
}  // namespace roll::convert
