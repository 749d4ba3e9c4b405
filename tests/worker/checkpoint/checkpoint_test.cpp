#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/files.hpp"
#include "common/hash.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/checkpoint/background.hpp"
#include "worker/checkpoint/choose.hpp"
#include "worker/checkpoint/part.hpp"
#include "worker/checkpoint/staging.hpp"
#include "worker/checkpoint/state.hpp"

namespace roll::checkpoint {
namespace {

namespace fs = std::filesystem;

class Checkpoint : public testing::Test {
  protected:
    TemporaryFolder root_;
};

void put(const fs::path& path, const std::string& content) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
}

Result<void> fill(const fs::path& directory) {
    put(directory / "mca_config.json", "{}\n");
    put(directory / "iter_0000001/mp_rank_00/model_optim_rng.pt", std::string(1000, 'w'));
    put(directory / "roll/state.json", "{\"step\": 100}");
    return {};
}

fs::path publish(const fs::path& root, const Name& name) {
    const auto staged = stage(root, name, fill);
    EXPECT_TRUE(staged);
    EXPECT_EQ(staged->filename(), staged_name(name));
    EXPECT_TRUE(rename_new(*staged, root / final_name(name)));
    return root / final_name(name);
}

TEST(Names, ReadBackWhatTheyWrite) {
    const Name name{100, {3, 1}};
    EXPECT_EQ(final_name(name), "step-00000100.3-1");
    EXPECT_EQ(parse_final_name("step-00000100.3-1"), name);
    EXPECT_EQ(parse_staged_name(".step-00000100.3-1"), name);
    EXPECT_EQ(parse_final_name(final_name({1234567890123, {7, 8}}))->step, 1234567890123);
    for (const char* wrong : {"", "step-", "step-100.3-1", "step-00000100", "step-00000100.3",
                              "step-00000100.3-1x", ".step-00000100.3-1", "step--0000100.3-1"})
        EXPECT_FALSE(parse_final_name(wrong)) << wrong;
}

TEST_F(Checkpoint, VerifiesWhatWasStaged) {
    const fs::path directory = publish(root_, {100, {3, 1}});
    const auto manifest = verify(directory);
    ASSERT_TRUE(manifest);
    EXPECT_EQ(manifest->name, (Name{100, {3, 1}}));
    EXPECT_EQ(manifest->files.size(), 3u);
    EXPECT_FALSE(fs::exists(root_ / staged_name({100, {3, 1}})));
}

TEST_F(Checkpoint, FindsAndNamesEveryFlippedByte) {
    const fs::path directory = publish(root_, {100, {3, 1}});
    for (const auto& file : fs::recursive_directory_iterator(directory)) {
        if (!file.is_regular_file()) continue;
        const std::string good = read_file(file.path()).value();
        for (std::size_t i = 0; i < good.size(); ++i) {
            std::string bad = good;
            bad[i] = static_cast<char>(bad[i] ^ 1);
            put(file.path(), bad);
            const auto verified = verify(directory);
            ASSERT_FALSE(verified) << file.path() << " byte " << i;
            EXPECT_EQ(verified.error().code, ErrorCode::Corrupt);
            EXPECT_NE(verified.error().message.find(file.path().filename().string()),
                      std::string::npos)
                << verified.error().message;
        }
        put(file.path(), good);
    }
    EXPECT_TRUE(verify(directory));
}

TEST_F(Checkpoint, NamesAMissingATornAndAStrangeFile) {
    const fs::path directory = publish(root_, {100, {3, 1}});
    const fs::path weights = directory / "iter_0000001/mp_rank_00/model_optim_rng.pt";
    put(directory / "stranger", "x");
    EXPECT_NE(verify(directory).error().message.find("stranger is not in its manifest"),
              std::string::npos);
    fs::remove(directory / "stranger");
    fs::resize_file(weights, 999);
    EXPECT_NE(verify(directory).error().message.find("has 999 bytes"), std::string::npos);
    fs::remove(weights);
    EXPECT_NE(verify(directory).error().message.find("model_optim_rng.pt is missing"),
              std::string::npos);
    ASSERT_EQ(::mkfifo(weights.c_str(), 0600), 0);
    EXPECT_EQ(verify(directory).error().message, weights.string() + " is not a regular file");
    fs::remove(weights);
    fs::create_symlink(weights.filename(), weights);
    EXPECT_EQ(verify(directory).error().message,
              "cannot open " + weights.string() + ": Too many levels of symbolic links");
}

TEST_F(Checkpoint, RefusesAManifestThatLeadsOut) {
    const std::string text = encode(Manifest{{1, {1, 1}}, {{"../secret", 1, 2}}});
    EXPECT_NE(decode_manifest(text).error().message.find("leaves the checkpoint"),
              std::string::npos);
}

TEST_F(Checkpoint, LeavesNothingWhenFillingFails) {
    const auto full = [](const fs::path& directory) -> Result<void> {
        put(directory / "half", "x");
        return fail(ErrorCode::Refused, "no space left on device");
    };
    const auto staged = stage(root_, {5, {1, 1}}, full);
    ASSERT_FALSE(staged);
    EXPECT_EQ(staged.error().code, ErrorCode::Refused);
    const auto thrown = [](const fs::path& directory) -> Result<void> {
        put(directory / "half", "x");
        throw std::runtime_error("lost");
    };
    EXPECT_THROW(static_cast<void>(stage(root_, {5, {1, 1}}, thrown)), std::runtime_error);
    EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(Checkpoint, ChoosesTheNewestThatVerifiesAndSaysWhyNot) {
    const fs::path old = publish(root_, {10, {1, 1}});
    const fs::path damaged = publish(root_, {20, {1, 1}});
    const fs::path missing = root_ / "step-00000030.1-1";
    put(damaged / "roll/state.json", "{\"step\": 101}");
    const std::vector<fs::path> newest_first = {missing, damaged, old};
    const Choice choice = choose_newest(newest_first);
    EXPECT_EQ(choice.directory, old);
    EXPECT_EQ(choice.manifest.name.step, 10);
    ASSERT_EQ(choice.reasons.size(), 2u);
    EXPECT_NE(choice.reasons[0].find("No such file"), std::string::npos);
    EXPECT_NE(choice.reasons[1].find("state.json does not match its checksum"), std::string::npos);
    EXPECT_FALSE(choose_newest(std::span(newest_first).first(2)).directory);
}

TEST_F(Checkpoint, SweepsOnlyWhatEarlierTokensLeft) {
    for (const char* name : {".step-00000010.1-1", ".step-00000010.2-1", ".trash-step-00000001.1-1",
                             "step-00000005.1-1"})
        put(root_ / name / "file", "x");
    EXPECT_EQ(sweep(root_, {2, 1}).value().removed, 2);
    EXPECT_TRUE(fs::exists(root_ / ".step-00000010.2-1"));
    EXPECT_TRUE(fs::exists(root_ / "step-00000005.1-1"));
    EXPECT_EQ(sweep(root_ / "nowhere", {2, 1}).value().removed, 0);
}

// A directory that cannot be removed, like one on NFS with an open file in it. It is made a mount
// point.
class Stuck {
  public:
    explicit Stuck(const fs::path& place) : place_(place) {
        fs::create_directories(place);
        done_ = ::mount("tmpfs", place.c_str(), "tmpfs", 0, "size=4k") == 0;
    }
    Stuck(const Stuck&) = delete;
    Stuck& operator=(const Stuck&) = delete;
    ~Stuck() { free(); }
    bool done() const { return done_; }
    void free() {
        if (std::exchange(done_, false)) ::umount(place_.c_str());
    }

  private:
    fs::path place_;
    bool done_;
};

TEST_F(Checkpoint, SweepsTheRestIfOneCannotBeRemoved) {
    Stuck stuck(root_ / ".trash-step-00000001.1-1" / "open");
    if (!stuck.done()) GTEST_SKIP() << "nothing can be mounted here";
    put(root_ / ".trash-step-00000002.1-1" / "file", "x");
    put(root_ / ".step-00000010.1-1" / "file", "x");
    const Swept swept = sweep(root_, {2, 1}).value();
    EXPECT_EQ(swept.removed, 2);
    ASSERT_EQ(swept.left.size(), 1u);
    EXPECT_NE(swept.left[0].find("cannot delete"), std::string::npos);
    stuck.free();
    EXPECT_EQ(sweep(root_, {2, 1}).value().removed, 1);
}

TEST_F(Checkpoint, TheNextCallRemovesWhatOneCouldNot) {
    const Name name{10, {1, 1}};
    const fs::path trash = root_ / (".trash-" + final_name(name));
    Stuck stuck(trash / "open");
    if (!stuck.done()) GTEST_SKIP() << "nothing can be mounted here";
    EXPECT_FALSE(remove(root_, name));
    stuck.free();
    EXPECT_TRUE(remove(root_, name));
    EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(Checkpoint, RemovesOneAndToleratesThatItIsGone) {
    const fs::path directory = publish(root_, {10, {1, 1}});
    EXPECT_TRUE(remove(root_, {10, {1, 1}}));
    EXPECT_TRUE(remove(root_, {10, {1, 1}}));
    EXPECT_TRUE(fs::is_empty(root_));
}

Kept kept(std::int64_t step, std::uint64_t attempt = 1, bool usable = true) {
    return {{step, {1, attempt}}, usable};
}

TEST(Retention, KeepsTheNewest) {
    EXPECT_EQ(to_delete({kept(10), kept(30), kept(20)}, {.keep = 2}),
              (std::vector<Name>{{10, {1, 1}}}));
    EXPECT_TRUE(to_delete({kept(10), kept(20)}, {.keep = 2}).empty());
    EXPECT_TRUE(to_delete({}, {.keep = 1}).empty());
}

TEST(Retention, NeverDeletesWhatItResumedFromBeforeANewerOne) {
    const Name from{20, {1, 1}};
    EXPECT_EQ(
        to_delete({kept(10), kept(20), kept(40, 1, false)}, {.keep = 1, .resumed_from = from}),
        (std::vector<Name>{{40, {1, 1}}, {10, {1, 1}}}));
    EXPECT_EQ(to_delete({kept(20), kept(30, 2)}, {.keep = 1, .resumed_from = from}),
              (std::vector<Name>{from}));
}

TEST(Retention, DamagedOnesNeverCount) {
    EXPECT_TRUE(to_delete({kept(40, 1, false)}, {.keep = 1}).empty());
    EXPECT_EQ(to_delete({kept(40, 1, false), kept(30), kept(20)}, {.keep = 2}),
              (std::vector<Name>{{40, {1, 1}}}));
}

TEST(Retention, TheNewestOfTheBestStepStaysBesides) {
    EXPECT_EQ(to_delete({kept(10), kept(10, 2), kept(20), kept(30), kept(40)},
                        {.keep = 1, .best_step = 10}),
              (std::vector<Name>{{30, {1, 1}}, {20, {1, 1}}, {10, {1, 1}}}));
    EXPECT_EQ(to_delete({kept(10), kept(20)}, {.keep = 1, .best_step = 20}),
              (std::vector<Name>{{10, {1, 1}}}));
    EXPECT_EQ(to_delete({kept(10, 1, false), kept(20)}, {.keep = 1, .best_step = 10}),
              (std::vector<Name>{{10, {1, 1}}}));
}

TEST(Retention, OneOfEachStepThatTheRuleDividesStaysForEver) {
    EXPECT_EQ(to_delete({kept(10), kept(20), kept(20, 2), kept(30), kept(40), kept(50)},
                        {.keep = 1, .keep_every = 20}),
              (std::vector<Name>{{30, {1, 1}}, {20, {1, 1}}, {10, {1, 1}}}));
    EXPECT_EQ(to_delete({kept(20, 1, false), kept(50)}, {.keep = 1, .keep_every = 20}),
              (std::vector<Name>{{20, {1, 1}}}));
}

TEST(Retention, OptimizerStateStaysWithTheNewestAndWithWhatItResumedFrom) {
    const auto three = {kept(10), kept(30), kept(20)};
    EXPECT_TRUE(to_strip(three, {}).empty());
    EXPECT_EQ(to_strip(three, {.optimizer = 1}), (std::vector<Name>{{20, {1, 1}}, {10, {1, 1}}}));
    Kept weights = kept(20);
    weights.optimizer = false;
    EXPECT_EQ(to_strip({kept(10), kept(30), weights}, {.optimizer = 1}),
              (std::vector<Name>{{10, {1, 1}}}));
    const Name from{20, {1, 1}};
    EXPECT_TRUE(
        to_strip({kept(20), kept(40, 1, false)}, {.optimizer = 1, .resumed_from = from}).empty());
}

TEST_F(Checkpoint, DropsOptimizerStateAndIsStillWhole) {
    const Name name{10, {1, 1}};
    const auto fill_more = [](const fs::path& directory) -> Result<void> {
        put(directory / kOptimizerFile, std::string(1000, 'm'));
        return fill(directory);
    };
    ASSERT_TRUE(rename_new(*stage(root_, name, fill_more), root_ / final_name(name)));
    const std::vector<fs::path> only = {root_ / final_name(name)};
    EXPECT_EQ(choose_newest(only, For::Resume).directory, only[0]);
    const std::string moments = read_file(only[0] / kOptimizerFile).value();
    ASSERT_TRUE(drop_optimizer(root_, name));
    ASSERT_TRUE(drop_optimizer(root_, name));
    EXPECT_FALSE(fs::exists(only[0] / kOptimizerFile));
    EXPECT_EQ(verify(only[0])->files.size(), 3u);
    EXPECT_EQ(choose_newest(only).directory, only[0]);
    const Choice none = choose_newest(only, For::Resume);
    EXPECT_FALSE(none.directory);
    EXPECT_TRUE(none.damaged.empty());
    EXPECT_NE(none.reasons[0].find("the optimizer state of this checkpoint was deleted"),
              std::string::npos);
    // a crash between rewriting the manifest and deleting the file leaves this
    put(only[0] / kOptimizerFile, moments);
    EXPECT_TRUE(verify(only[0]));
    EXPECT_FALSE(choose_newest(only, For::Resume).directory);
}

TEST_F(Checkpoint, ProvesThatItCanWrite) {
    EXPECT_TRUE(prove(root_, {1, 1}));
    EXPECT_TRUE(fs::is_empty(root_));
    put(root_ / "file", "x");
    EXPECT_FALSE(prove(root_ / "file", {1, 1}));
}

TEST(State, CountsValuesThatAreNoBetter) {
    for (const double sign : {1.0, -1.0}) {
        State state;
        const bool higher = sign < 0;
        const auto note = [&](std::int64_t step, double loss) {
            state.step = step;
            note_stop(state, sign * loss, higher, 0.5);
            return note_best(state, sign * loss, higher);
        };
        EXPECT_TRUE(note(1, 4.0));
        EXPECT_TRUE(note(2, 3.75));  // the best value, but not better by min_delta
        EXPECT_EQ(state.stale_validations, 1);
        EXPECT_FALSE(note(3, 3.75));
        EXPECT_FALSE(note(4, std::nan("")));
        EXPECT_EQ(state.stale_validations, 3);
        EXPECT_EQ(state.best_step, 2);
        EXPECT_TRUE(note(5, 3.0));
        EXPECT_EQ(state.stale_validations, 0);
        EXPECT_EQ(state.best.value, sign * 3.0);
    }
}

TEST(State, AFirstValueThatIsNoNumberIsNotTheBest) {
    State state;
    note_stop(state, std::nan(""), false, 0);
    EXPECT_FALSE(note_best(state, std::nan(""), false));
    EXPECT_FALSE(state.best.value);
    EXPECT_EQ(state.stale_validations, 1);
    note_stop(state, 4.0, false, 0);
    EXPECT_TRUE(note_best(state, 4.0, false));
    EXPECT_EQ(state.stale_validations, 0);
}

TEST(State, ForgetsTheValuesOfOtherMetricsAndOfTheOtherDirection) {
    State state;
    state.step = 3;
    note_best(state, 2.0, false);
    note_stop(state, 2.0, false, 0);
    note_stop(state, 2.5, false, 0);
    const auto metric = [](const char* name, bool higher) {
        return Best{.metric = name, .higher = higher};
    };
    const Best lowest = metric("valid_loss", false), highest = metric("valid_loss", true);
    use_metrics(state, lowest, lowest);  // the direction was unknown, so the values stay
    EXPECT_EQ(state.best, (Best{"valid_loss", 2.0, false}));
    EXPECT_EQ(state.stale_validations, 1);
    state = decode_state(encode(state)).value();
    use_metrics(state, lowest, metric("task_acc/arithmetic", true));
    EXPECT_EQ(state.best, (Best{"valid_loss", 2.0, false}));
    EXPECT_EQ(state.stop, metric("task_acc/arithmetic", true));
    EXPECT_EQ(state.stale_validations, 0);
    use_metrics(state, highest, lowest);
    EXPECT_EQ(state.best, highest);
    EXPECT_EQ(state.best_step, 0);
}

TEST(State, ReadsTheBestLossOfEarlierVersions) {
    State state;
    state.best_step = 7;
    std::string text = encode(state);
    text.replace(text.find("\"best\": {"), 0, "\"best_valid_loss\": 1.5,\n \"older\": 1, ");
    text.replace(text.find("\"best\": {"), 6, "\"old1\"");
    text.replace(text.find("\"stop\": {"), 6, "\"old2\"");
    const State read = decode_state(text).value();
    EXPECT_EQ(read.best, (Best{"valid_loss", 1.5}));
    EXPECT_EQ(read.stop, (Best{"valid_loss", 1.5}));
}

TEST(State, SurvivesItsCodec) {
    State state;
    state.step = 7;
    state.samples = 56;
    state.tokens = 900;
    state.seed = 1ull << 63;
    state.stale_validations = 2;
    state.loss_scale = LossScale{1024, 7, 1, 12, 3};
    state.recent = RecentSteps{{0.1, 2}, {1.0 / 3, 4}, 8, 3};
    state.dtype = "fp64";
    state.layout = {.dp = 2, .tp = 1, .pp = 4, .vpp = 2, .cp = 1, .ep = 1};
    state.loss = 0.1;
    state.best = {"valid_rewards/accuracies", 1.0 / 3};
    state.stop.value = 2.5;
    EXPECT_EQ(decode_state(encode(state)).value(), state);
    EXPECT_FALSE(decode_state("{}"));
}

TEST(Background, GivesEachOutcomeOnce) {
    Background background;
    EXPECT_FALSE(background.wait());
    background.start([]() -> Result<std::string> { return "done"; });
    EXPECT_TRUE(background.busy());
    EXPECT_EQ(background.wait()->value(), "done");
    EXPECT_FALSE(background.poll());
    background.start([]() -> Result<std::string> { throw std::runtime_error("no memory"); });
    EXPECT_EQ(background.wait()->error().message, "no memory");
}

// Writes the part of a rank, which has one file.
Part put_part(const fs::path& staged, const Name& name, int rank, const std::string& content) {
    const std::string path = std::string(kOptimizerFolder) + "/" + optimizer_file(rank);
    put(staged / path, content);
    const StoredBox box{optimizer_file(rank), {rank, 0}, {1, 5}, {0, 0}};
    Part part{name, {{path, content.size(), hash64(content)}}, {7, {{"w", {{2, 5}, {box}}}}}};
    EXPECT_TRUE(write_part(staged, rank, part));
    return part;
}

TEST_F(Checkpoint, PartsAreJoinedWithoutReadingTheirFiles) {
    const Name name{4, {1, 2}};
    const fs::path staged = begin_stage(root_, name).value();
    const Part first = put_part(staged, name, 0, "abc");
    put_part(staged, name, 1, "defg");
    // The writer's hash counts, so a byte that changes after it is found by verify().
    put(staged / first.files[0].path, "abX");
    ASSERT_TRUE(seal_parts(root_, name, 2, fill));
    EXPECT_FALSE(fs::exists(staged / "roll/part-00000.json"));
    const auto verified = verify(staged);
    ASSERT_FALSE(verified);
    EXPECT_NE(verified.error().message.find("rank-00000.safetensors does not match its checksum"),
              std::string::npos);
    put(staged / first.files[0].path, "abc");
    EXPECT_EQ(verify(staged).value().files.size(), 6u);
    const auto index =
        decode_optimizer_index(read_file(staged / kOptimizerIndexFile).value()).value();
    EXPECT_EQ(index.updates, 7);
    ASSERT_EQ(index.parameters.at("w").boxes.size(), 2u);
    EXPECT_EQ(index.parameters.at("w").boxes[1].begin, (Sizes{1, 0}));
    // Two readers each check other files; together they check all.
    put(staged / first.files[0].path, "abX");
    EXPECT_NE(verify(staged, {0, 2}).has_value(), verify(staged, {1, 2}).has_value());
}

TEST_F(Checkpoint, APartThatIsMissingTornOrOfAnotherStepIsNamed) {
    const Name name{4, {1, 2}};
    const auto seal = [&](const std::function<void(const fs::path& staged)>& spoil) {
        const fs::path staged = begin_stage(root_, name).value();
        for (int rank = 0; rank < 2; ++rank) put_part(staged, name, rank, "abc");
        spoil(staged);
        const auto sealed = seal_parts(root_, name, 2, fill);
        EXPECT_FALSE(fs::exists(staged));
        return sealed ? std::string() : sealed.error().message;
    };
    const std::string missing =
        seal([](const fs::path& staged) { fs::remove(staged / "roll/part-00001.json"); });
    EXPECT_NE(missing.find("the part of rank 1 is missing"), std::string::npos) << missing;
    const std::string torn = seal([](const fs::path& staged) {
        fs::resize_file(staged / kOptimizerFolder / optimizer_file(1), 2);
    });
    EXPECT_NE(torn.find("has 2 bytes, but 3 were written"), std::string::npos) << torn;
    const std::string other = seal([&](const fs::path& staged) {
        EXPECT_TRUE(write_part(staged, 1, {{3, {1, 2}}, {}, {}}));
    });
    EXPECT_NE(other.find("belongs to step-00000003.1-2"), std::string::npos) << other;
}

TEST_F(Checkpoint, TheOptimizerStateOfAllRanksIsDropped) {
    const Name name{4, {1, 2}};
    const fs::path staged = begin_stage(root_, name).value();
    for (int rank = 0; rank < 2; ++rank) put_part(staged, name, rank, "abc");
    ASSERT_TRUE(seal_parts(root_, name, 2, fill));
    const fs::path directory = root_ / final_name(name);
    ASSERT_TRUE(rename_new(staged, directory));
    const std::vector<fs::path> only{directory};
    EXPECT_EQ(choose_newest(only, For::Resume).directory, directory);
    ASSERT_TRUE(drop_optimizer(root_, name));
    EXPECT_FALSE(fs::exists(directory / kOptimizerFolder));
    EXPECT_TRUE(verify(directory));
    EXPECT_FALSE(choose_newest(only, For::Resume).directory);
}

}  // namespace
}  // namespace roll::checkpoint
