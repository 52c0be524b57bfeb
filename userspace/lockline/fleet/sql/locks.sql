-- Waits by side, lock and kind, most first.
SELECT
    picked.side AS side, waited.lock AS lock, waited.kind AS kind, SUM(waited.weight * waited.wait_ns) AS weighted_ns,
    SUM(waited.waits) AS waits, SUM(waited.wait_ns) AS wait_ns, MAX(waited.max_ns) AS max_ns,
    COUNT(DISTINCT waited.host) AS hosts
FROM waited
JOIN picked ON picked.recording = waited.recording
WHERE waited.hour >= picked.first_hour AND waited.hour < picked.end_hour
GROUP BY picked.side, waited.lock, waited.kind
ORDER BY side, weighted_ns DESC, lock, kind
