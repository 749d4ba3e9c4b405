-- One row per event. `hash` forms a chain: it is XXH3-64 of (seq, at, kind, body), seeded with the hash of
-- the previous row.
CREATE TABLE events (
    seq  INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,  -- milliseconds since 1970, UTC
    kind TEXT NOT NULL,
    job  INTEGER,
    body TEXT NOT NULL,
    hash INTEGER NOT NULL
) STRICT;
CREATE INDEX events_of_job ON events (job, seq) WHERE job IS NOT NULL;
