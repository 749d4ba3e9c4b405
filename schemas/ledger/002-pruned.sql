-- One row per pruning. A pruning removes the events of old jobs and computes all hashes of the chain again.
-- `seq` and `hash` are those of the newest row before the pruning: the file ledger.mark may still have them.
CREATE TABLE pruned (
    seq  INTEGER NOT NULL,
    hash INTEGER NOT NULL,
    at   INTEGER NOT NULL  -- milliseconds since 1970, UTC
) STRICT;
