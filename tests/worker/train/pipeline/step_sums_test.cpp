// Tests the sums of a step over ranks: the order of the additions, and the number of transfers.
#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "tests/worker/train/pipeline/world.hpp"
#include "worker/plan/mesh.hpp"

namespace roll::train {
namespace {

// Passes transfers on, and notes the tags of those that carry only a few numbers, unless these are
// gradients or weights.
class SmallTransfers final : public Communicator {
  public:
    SmallTransfers(std::unique_ptr<Communicator> inner, std::vector<Site>& sites)
        : inner_(std::move(inner)),
          sites_(sites) {}

    int rank() const override { return inner_->rank(); }
    int size() const override { return inner_->size(); }
    Ticket issue(const Transfer& transfer) override {
        constexpr std::int64_t kFew = 20;
        const Site site = transfer.tag.site;
        const bool is_small = transfer.is_collective() && transfer.payload().numel() <= kFew;
        const bool is_tensor = site == Site::PartialGrads || site == Site::Weights;
        if (is_small && !is_tensor && size() > 1) sites_.push_back(site);
        return inner_->issue(transfer);
    }
    void wait(Ticket ticket) override { inner_->wait(ticket); }

  private:
    std::unique_ptr<Communicator> inner_;
    std::vector<Site>& sites_;
};

struct Axes {
    int dp = 1, tp = 1, pp = 1;

    int ranks() const { return dp * tp * pp; }
};

// The groups of one rank of a fabric.
struct NotedGroups {
    std::vector<Site> sites;
    SmallTransfers pp, dp, tp, world;

    NotedGroups(LocalFabric& fabric, const Axes& axes, int rank)
        : pp(along(fabric, axes, rank, "pp", plan::Axis::Pp), sites),
          dp(along(fabric, axes, rank, "dp", plan::Axis::Dp), sites),
          tp(along(fabric, axes, rank, "tp", plan::Axis::Tp), sites),
          world(fabric.world(rank), sites) {}

    static std::unique_ptr<Communicator> along(LocalFabric& fabric, const Axes& axes, int rank,
                                               const std::string& name, plan::Axis axis) {
        const plan::Mesh mesh =
            plan::Mesh::make({.dp = axes.dp, .tp = axes.tp, .pp = axes.pp}, axes.ranks()).value();
        const std::vector<int> ranks = mesh.group(rank, axis);
        return fabric.group(name + std::to_string(ranks.front()), ranks, rank);
    }
    Groups groups() { return {.pp = pp, .dp = dp, .tp = &tp, .world = &world}; }
};

// The part of one rank. Sums of such numbers depend on the order of the additions.
double part(int pp, int dp, int tp) { return 1.0 / (1 + pp) + 1e-9 / (3 + dp) + 1e-16 * (1 + tp); }

TEST(StepSums, AreAddedInTheOrderOfTheRanks) {
    for (const bool shared : {false, true})
        for (const Axes& axes : {Axes{.dp = 3}, Axes{.dp = 3, .tp = 2, .pp = 4}, Axes{.pp = 3}}) {
            double squares = 0;
            std::vector<double> squares_D(static_cast<std::size_t>(axes.dp), 0);
            const auto of_tp = [&](int pp, int dp) {
                double sum = part(pp, dp, 0);
                for (int tp = 1; tp < axes.tp; ++tp) sum += part(pp, dp, tp);
                return sum;
            };
            for (int pp = 0; pp < axes.pp; ++pp) {
                double of_stage = of_tp(pp, 0);
                for (int dp = 1; dp < axes.dp; ++dp) of_stage += of_tp(pp, dp);
                squares += of_stage;
                for (int dp = 0; dp < axes.dp; ++dp)
                    squares_D[static_cast<std::size_t>(dp)] += of_tp(pp, dp);
            }
            double loss = part(axes.pp - 1, 0, 0);
            for (int dp = 1; dp < axes.dp; ++dp) loss += part(axes.pp - 1, dp, 0);
            const plan::Mesh mesh =
                plan::Mesh::make({.dp = axes.dp, .tp = axes.tp, .pp = axes.pp}, axes.ranks())
                    .value();
            LocalFabric fabric(axes.ranks(), {.seed = 3});
            fabric.run([&](int rank) {
                const plan::Place place = mesh.place(rank);
                NotedGroups noted(fabric, axes, rank);
                StepParts own{.squares = part(place.pp, place.dp, place.tp)};
                if (place.pp == axes.pp - 1) own.loss = part(place.pp, place.dp, 0);
                const std::vector<double> extra = {0.5 + rank, -1.0 * rank};
                const StepSums sums = step_sums(noted.groups(), own, shared, extra);
                EXPECT_EQ(sums.whole.loss, loss);
                EXPECT_EQ(sums.own_loss, part(axes.pp - 1, place.dp, 0));
                const auto replica = static_cast<std::size_t>(place.dp);
                EXPECT_EQ(sums.whole.squares, shared ? squares : squares_D[replica]);
                EXPECT_EQ(sums.squares_D, shared ? std::vector<double>{squares} : squares_D);
                ASSERT_EQ(sums.extra_RN.sizes(), (at::IntArrayRef{axes.ranks(), 2}));
                for (int r = 0; r < axes.ranks(); ++r) {
                    EXPECT_EQ(sums.extra_RN[r][0].item<double>(), 0.5 + r);
                    EXPECT_EQ(sums.extra_RN[r][1].item<double>(), -1.0 * r);
                }
                EXPECT_EQ(noted.sites, std::vector<Site>{Site::StepSums});
            });
        }
}

// Apart from the number of targets, which all ranks need before the first backward, a step has one
// transfer of a few numbers. It also carries the caller's numbers, which a repeated step does not
// ask for again.
TEST(StepSums, AreOneTransferOfAStep) {
    struct Case {
        Axes axes;
        int zero = 0;
    };
    for (const Case& one :
         {Case{{.dp = 2}}, Case{{.dp = 3}, 1}, Case{{.dp = 2}, 2}, Case{{.dp = 2}, 3},
          Case{{.dp = 2, .pp = 2}, 1}, Case{{.pp = 2}}, Case{{.dp = 2, .tp = 2, .pp = 2}}}) {
        const World world{.config = split_model(false),
                          .schedule = plan::one_forward_one_backward(one.axes.pp, 2),
                          .dp = one.axes.dp,
                          .zero = one.zero};
        LocalJob job = job_of(world);
        LocalFabric fabric(one.axes.ranks());
        fabric.run([&](int rank) {
            at::set_num_threads(1);
            NotedGroups noted(fabric, one.axes, rank);
            TrainStep step(job.config, job.schedule, noted.groups(), job.options);
            const std::vector<Microbatch> batch = job.batch(0);
            const auto own = std::span(batch).subspan(noted.dp.rank() * 2, 2);
            int calls = 0;
            const auto extra = [&] { return std::vector{1.0 * rank, 1.0 * ++calls}; };
            // The loss exceeds its limit, so the weights stay and the step can be repeated.
            const StepResult result = step.run(own, 1e-2, 1, false, {.loss = 0}, extra);
            std::vector<Site> expected;
            if (one.axes.dp > 1) expected.push_back(Site::TokenCount);
            expected.push_back(Site::StepSums);
            EXPECT_EQ(noted.sites, expected) << "rank " << rank << " of " << one.axes.ranks();
            for (int r = 0; r < one.axes.ranks(); ++r) {
                EXPECT_EQ(result.extra_RN[r][0].item<double>(), r);
                EXPECT_EQ(result.extra_RN[r][1].item<double>(), 1);
            }
            EXPECT_EQ(step.repeat(own).loss, result.loss);
            EXPECT_EQ(calls, 1);
        });
    }
}

}  // namespace
}  // namespace roll::train
