-- By lock and kind: wait time over all observed host time.
SELECT
    waited.lock AS lock, waited.kind AS kind, waited.hosts AS hosts, waited.waits AS waits, waited.wait_ns AS wait_ns,
    waited.wait_ns / observed.observed_ns AS share, waited.max_ns AS max_ns
FROM (
    SELECT
        lock, kind, COUNT(DISTINCT host) AS hosts, SUM(waits) AS waits, SUM(weight * wait_ns) AS wait_ns,
        MAX(max_ns) AS max_ns
    FROM lock_hours GROUP BY kind, lock) AS waited
CROSS JOIN (SELECT SUM(weight * observed_ns) AS observed_ns FROM hours) AS observed
