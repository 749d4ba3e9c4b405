// Lets several threads run one at a time: only the thread that has the baton runs. To pass on the
// baton, a thread gives the condition for which it waits. The next thread is drawn at random (from
// the seed) among the threads whose condition is true. Therefore, a run can be repeated exactly
// from its seed, and a deadlock is found immediately.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <vector>

namespace roll::train {

// Thrown in every thread if no thread can run. The message says what each thread waits for.
class Deadlock : public std::logic_error {
  public:
    using std::logic_error::logic_error;
};

class Baton {
  public:
    Baton(int threads, std::uint64_t seed);

    // Gives the baton to the first thread. Every thread must first call enter() and finally call
    // leave().
    void start();
    void enter(int thread);
    void leave(int thread);

    // Passes the baton to other threads. Returns when is_ready() is true and this thread has the
    // baton again. `what` says in words what the thread waits for.
    void pass(int thread, const std::string& what, const std::function<bool()>& is_ready);

  private:
    struct Thread {
        std::binary_semaphore turn{0};
        bool left = false;
        std::string what = "its start";
        std::function<bool()> is_ready = [] { return true; };
    };
    std::vector<Thread*> ready();
    void give_on();
    void note_deadlock();

    std::mt19937_64 random_;
    std::deque<Thread> threads_;
    std::string deadlock_;  // text of the Deadlock exception; empty until a deadlock is found
};

}  // namespace roll::train
