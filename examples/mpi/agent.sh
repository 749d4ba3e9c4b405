#!/bin/sh
# What mpirun calls instead of ssh: agent.sh [OPTION...] NODE COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
node=$1
shift
exec rollctl shell "$ROLL_JOB" --node "$node" -- sh -c "$*" </dev/null
