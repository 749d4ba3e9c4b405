// Loads libzmq at the first call of one of its functions. A rollctl that uses the local socket
// (local_stream.hpp) calls none. That halves its start (from 6 ms to 3 ms), because Debian's libzmq
// loads 16 more libraries (Kerberos, PGM, NORM, sodium, ...).
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <zmq.h>

namespace {

[[noreturn]] void give_up(const char* why) {
    std::fprintf(stderr, "cannot load libzmq.so.5: %s\n  next: apt-get install libzmq5\n", why);
    std::exit(1);
}

void* library() {
    static void* const handle = ::dlopen("libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) give_up(::dlerror());
    return handle;
}

template <class Function>
Function* find(const char* name) {
    void* const symbol = ::dlsym(library(), name);
    if (symbol == nullptr) give_up(::dlerror());
    return reinterpret_cast<Function*>(symbol);
}

}  // namespace

#define ROLL_FORWARD(result, name, parameters, arguments)          \
    result name parameters {                                       \
        static auto* const function = find<decltype(name)>(#name); \
        return function arguments;                                 \
    }

extern "C" {
ROLL_FORWARD(int, zmq_errno, (), ())
ROLL_FORWARD(const char*, zmq_strerror, (int number), (number))

ROLL_FORWARD(void*, zmq_ctx_new, (), ())
ROLL_FORWARD(int, zmq_ctx_set, (void* context, int option, int value), (context, option, value))
ROLL_FORWARD(int, zmq_ctx_term, (void* context), (context))

ROLL_FORWARD(void*, zmq_socket, (void* context, int type), (context, type))
ROLL_FORWARD(int, zmq_close, (void* socket), (socket))
ROLL_FORWARD(int, zmq_setsockopt, (void* socket, int option, const void* value, size_t size),
             (socket, option, value, size))
ROLL_FORWARD(int, zmq_getsockopt, (void* socket, int option, void* value, size_t* size),
             (socket, option, value, size))
ROLL_FORWARD(int, zmq_bind, (void* socket, const char* endpoint), (socket, endpoint))
ROLL_FORWARD(int, zmq_unbind, (void* socket, const char* endpoint), (socket, endpoint))
ROLL_FORWARD(int, zmq_connect, (void* socket, const char* endpoint), (socket, endpoint))
ROLL_FORWARD(int, zmq_socket_monitor, (void* socket, const char* endpoint, int events),
             (socket, endpoint, events))

ROLL_FORWARD(int, zmq_send, (void* socket, const void* bytes, size_t size, int flags),
             (socket, bytes, size, flags))
ROLL_FORWARD(int, zmq_recv, (void* socket, void* bytes, size_t size, int flags),
             (socket, bytes, size, flags))
ROLL_FORWARD(int, zmq_poll, (zmq_pollitem_t * items, int count, long timeout),
             (items, count, timeout))
ROLL_FORWARD(int, zmq_msg_init, (zmq_msg_t * message), (message))
ROLL_FORWARD(int, zmq_msg_close, (zmq_msg_t * message), (message))
ROLL_FORWARD(int, zmq_msg_recv, (zmq_msg_t * message, void* socket, int flags),
             (message, socket, flags))
ROLL_FORWARD(int, zmq_msg_more, (const zmq_msg_t* message), (message))
ROLL_FORWARD(void*, zmq_msg_data, (zmq_msg_t * message), (message))
ROLL_FORWARD(size_t, zmq_msg_size, (const zmq_msg_t* message), (message))
ROLL_FORWARD(const char*, zmq_msg_gets, (const zmq_msg_t* message, const char* name),
             (message, name))

ROLL_FORWARD(int, zmq_curve_keypair, (char* public_key, char* secret_key), (public_key, secret_key))
ROLL_FORWARD(int, zmq_curve_public, (char* public_key, const char* secret_key),
             (public_key, secret_key))
ROLL_FORWARD(char*, zmq_z85_encode, (char* text, const uint8_t* bytes, size_t size),
             (text, bytes, size))
ROLL_FORWARD(uint8_t*, zmq_z85_decode, (uint8_t * bytes, const char* text), (bytes, text))
}
