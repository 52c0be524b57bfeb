-- By host, lock and kind: wait time over the host's observed time.
SELECT
    waited.host AS host, waited.lock AS lock, waited.kind AS kind, waited.waits AS waits, waited.wait_ns AS wait_ns,
    observed.observed_ns AS observed_ns, waited.wait_ns / observed.observed_ns AS share
FROM (
    SELECT host, lock, kind, SUM(waits) AS waits, SUM(weight * wait_ns) AS wait_ns
    FROM lock_hours GROUP BY host, lock, kind) AS waited
JOIN (SELECT host, SUM(weight * observed_ns) AS observed_ns FROM hours GROUP BY host) AS observed
    ON observed.host = waited.host
