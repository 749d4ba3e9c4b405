// What a client may ask of rolld: the name of an operation, who may call it and when it is
// answered. operations.hpp has the table of all operations.
#pragma once

namespace roll::protocol {

// Who may call an operation. Each client may do what comes before its own kind.
enum class Access {
    Read,    // changes nothing
    Submit,  // queues jobs
    Change,  // changes jobs and secrets: the caller's own, or everybody's for the operator
    Operate  // changes nodes, allocation queues or rolld: only the operator
};

// When rolld answers.
enum class Answering {
    AtOnce,     // without a turn of the engine
    AfterTurn,  // after the turn that commits the change
    Later       // after several turns, or once there is something to report (long poll)
};

struct Operation {
    const char* name;
    Access access;
    Answering answering;
    const char* reply;    // the schema of the reply, such as "roll.cancel/1"
    const char* summary;  // one sentence, for the documentation
};

}  // namespace roll::protocol
