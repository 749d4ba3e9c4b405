#!/bin/sh
# run.sh N PROGRAM [ARGUMENT...]: runs N processes of an MPI program on each node of a gang that has
# one process on each node. The first node runs mpirun. The other nodes wait for its end, because
# their daemons of Open MPI run inside the same job.
ended=$ROLL_OUTPUT/mpirun-$ROLL_TOKEN
if [ "$ROLL_NODE_RANK" != 0 ]; then
    until [ -e "$ended" ]; do sleep 0.5; done
    exit 0
fi
each=$1
shift
sed "s/slots=.*/slots=$each/" "$ROLL_HOSTFILE" >"$ended.hosts"
mpirun --hostfile "$ended.hosts" --map-by "ppr:$each:node" --mca plm rsh \
    --mca plm_rsh_agent "sh $PWD/agent.sh" --mca plm_rsh_no_tree_spawn 1 "$@"
status=$?
: >"$ended"
exit $status
