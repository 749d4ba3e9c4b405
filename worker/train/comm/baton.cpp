#include "worker/train/comm/baton.hpp"

namespace roll::train {

Baton::Baton(int threads, std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back();
}

void Baton::start() { give_on(); }

void Baton::enter(int thread) { threads_[thread].turn.await(); }

void Baton::leave(int thread) {
    threads_[thread].left = true;
    give_on();
}

void Baton::pass(int thread, const std::function<std::string()>& what,
                 const std::function<bool()>& is_ready) {
    Thread& own = threads_[thread];
    own.what = &what;
    own.is_ready = &is_ready;
    give_on();
    own.turn.await();
    if (!deadlock_.empty()) throw Deadlock(deadlock_);
}

std::vector<Baton::Thread*> Baton::ready() {
    std::vector<Thread*> found;
    for (Thread& thread : threads_) {
        if (thread.left) continue;
        const bool can_run =
            !deadlock_.empty() || thread.is_ready == nullptr || (*thread.is_ready)();
        if (can_run) found.push_back(&thread);
    }
    return found;
}

// Only the thread that has the baton calls give_on(), so no lock is needed.
void Baton::give_on() {
    std::vector<Thread*> next = ready();
    if (next.empty()) {
        note_deadlock();
        next = ready();
    }
    if (!next.empty()) next[random_() % next.size()]->turn.give();
}

void Baton::note_deadlock() {
    deadlock_ = "deadlock: every rank waits";
    for (std::size_t i = 0; i < threads_.size(); ++i)
        if (!threads_[i].left)
            deadlock_ += "; rank " + std::to_string(i) + " waits for " +
                         (threads_[i].what == nullptr ? "its start" : (*threads_[i].what)());
}

}  // namespace roll::train
