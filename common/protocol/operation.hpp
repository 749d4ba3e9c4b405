// Describes an operation that a client may request from rolld: its name, who may call it and when
// rolld answers. operations.hpp has the table of all operations.
#pragma once

namespace roll::protocol {

// The access that an operation requires. Each kind of access includes all kinds before
// it.
enum class Access {
    Read,    // the operation changes nothing
    Submit,  // the operation queues jobs
    Change,  // changes own jobs and secrets; the operator may change all jobs and secrets
    Operate  // changes nodes, allocation queues or rolld; only for the operator
};

// The time at which rolld answers a request. A turn is one pass of rolld's main loop.
enum class Answering {
    AtOnce,     // at once, without waiting for a turn
    AfterTurn,  // after the turn that commits the change
    Later       // after several turns, or once there is news (long poll)
};

struct Operation {
    const char* name;
    Access access;
    Answering answering;
    const char* reply;    // the schema of the reply, such as "roll.cancel/1"
    const char* summary;  // one sentence, for the documentation
};

}  // namespace roll::protocol
