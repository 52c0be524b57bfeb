-- How long waits for the judged locks were, by side and bucket of the histogram; each wait counts with its weight.
SELECT
    picked.side AS side, lengths.lock AS lock, lengths.kind AS kind, lengths.bucket AS bucket,
    SUM(lengths.weight * lengths.waits) AS waits
FROM lengths
JOIN picked ON picked.recording = lengths.recording
JOIN judged ON judged.lock = lengths.lock AND judged.kind = lengths.kind
WHERE lengths.hour >= picked.first_hour AND lengths.hour < picked.end_hour
GROUP BY picked.side, lengths.lock, lengths.kind, lengths.bucket
ORDER BY side, lock, kind, bucket
