// Measures submissions per second through engine and ledger, and the time to read the ledger at a
// start. Prints the numbers and checks no limits.
#include <chrono>
#include <cstdio>

#include <stdlib.h>

#include "daemon/engine/engine.hpp"
#include "daemon/ledger/ledger.hpp"

namespace {

using namespace roll;

double seconds_of(const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void submit(engine::Engine& engine, int first, int count) {
    std::vector<core::Input> batch;
    for (int i = first; i < first + count; ++i) {
        spec::JobSpec spec;
        spec.name = "bench";
        spec.output = "/runs/bench-{id}";
        spec.document = std::string(600, 'x');
        batch.push_back(core::Submit{"key" + std::to_string(i), "ann", std::move(spec)});
    }
    (void)engine.step(batch, wall_clock_now());
}

}  // namespace

int main() {
    std::string folder = "/tmp/roll-bench-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) return 1;
    constexpr int kSingles = 300;
    constexpr int kBatches = 20;
    constexpr int kBatch = 256;
    {
        auto ledger = ledger::Ledger::open(folder);
        if (!ledger) return 1;
        const auto append = [&](std::span<const core::Event> events, Time at) {
            return ledger->append(events, at);
        };
        engine::Engine engine(core::State{}, {append, [&] { return ledger->load(); }});
        const double single = seconds_of([&] {
            for (int i = 0; i < kSingles; ++i) submit(engine, i, 1);
        });
        const double batched = seconds_of([&] {
            for (int i = 0; i < kBatches; ++i) submit(engine, kSingles + i * kBatch, kBatch);
        });
        std::printf("submits a second: %.0f one a turn, %.0f in turns of %d\n", kSingles / single,
                    kBatches * kBatch / batched, kBatch);
    }
    const double start = seconds_of([&] {
        const auto ledger = ledger::Ledger::open(folder);
        if (ledger) (void)ledger->load();
    });
    std::printf("start with %d events: %.0f ms\n", kSingles + kBatches * kBatch, start * 1e3);
    std::filesystem::remove_all(folder);
    return 0;
}
