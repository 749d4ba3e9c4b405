// Lets several threads run one at a time: only the thread that has the baton runs. To pass on the
// baton, a thread gives the condition for which it waits. The next thread is drawn at random among
// the threads whose condition is true. The random numbers depend only on the seed, so a run can be
// repeated exactly from its seed. If no condition is true, there is a deadlock, and it is
// found immediately.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <semaphore.h>

namespace roll::train {

// Thrown in every thread if no thread can run. The message says what each thread waits for.
class Deadlock : public std::logic_error {
  public:
    using std::logic_error::logic_error;
};

// Lets one thread wait for its turn. Uses sem_t, because the semaphores of libstdc++ spin before
// they sleep. With a small model, this spinning costs more processor time than the work between two
// turns.
class Turn {
  public:
    Turn() { ::sem_init(&semaphore_, 0, 0); }
    ~Turn() { ::sem_destroy(&semaphore_); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    void give() { ::sem_post(&semaphore_); }
    void await() {
        while (::sem_wait(&semaphore_) != 0) {}  // try again if a signal interrupted sem_wait()
    }

  private:
    ::sem_t semaphore_{};
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
    // baton again. what() says in words what the thread waits for; it is called only if there is a
    // deadlock.
    void pass(int thread, const std::function<std::string()>& what,
              const std::function<bool()>& is_ready);

  private:
    struct Thread {
        Turn turn;
        bool left = false;
        // the arguments of the pass() call in which the thread waits; null: the thread waits for
        // its start
        const std::function<std::string()>* what = nullptr;
        const std::function<bool()>* is_ready = nullptr;
    };
    std::vector<Thread*> ready();
    void give_on();
    void note_deadlock();

    std::mt19937_64 random_;
    std::deque<Thread> threads_;
    std::string deadlock_;  // text of the Deadlock exception; empty until a deadlock is found
};

}  // namespace roll::train
