-- One row a pruning: it dropped the events of jobs long over and rehashed the chain, whose newest row
-- had had this hash before. The mark outside the database may still hold it.
CREATE TABLE pruned (
    seq  INTEGER NOT NULL,
    hash INTEGER NOT NULL,
    at   INTEGER NOT NULL  -- milliseconds since 1970, UTC
) STRICT;
