-- Waits of the judged locks by unit: a host on one side, with one kernel, CPU model and so on.
SELECT
    picked.unit AS unit, waited.lock AS lock, waited.kind AS kind, SUM(waited.weight * waited.wait_ns) AS weighted_ns
FROM waited
JOIN picked ON picked.recording = waited.recording
JOIN judged ON judged.lock = waited.lock AND judged.kind = waited.kind
WHERE waited.hour >= picked.first_hour AND waited.hour < picked.end_hour
GROUP BY picked.unit, waited.lock, waited.kind
ORDER BY unit, lock, kind
