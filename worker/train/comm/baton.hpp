// Lets one thread of several run at a time. A thread that passes the baton on states the condition
// that it waits for. The next thread is drawn from those whose condition holds, with random numbers
// from the seed. A run can therefore be repeated exactly from its seed, and a deadlock is found at
// once.
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

// Thrown in every thread when none can run. The message has what each thread waits for.
class Deadlock : public std::logic_error {
  public:
    using std::logic_error::logic_error;
};

class Baton {
  public:
    Baton(int threads, std::uint64_t seed);

    // Starts: gives the baton to the first thread. Every thread calls enter() first and leave()
    // last.
    void start();
    void enter(int thread);
    void leave(int thread);

    // Lets other threads run, and returns when is_ready() is true. `what` says what the thread
    // waits for.
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
