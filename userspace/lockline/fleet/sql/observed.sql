-- How long each unit was observed, in ns of weighted host time and of real time, with its first and last hour.
SELECT
    picked.unit AS unit, SUM(hours.weight * hours.observed_ns) AS weighted_ns, SUM(hours.observed_ns) AS observed_ns,
    MIN(hours.hour) AS first_hour, MAX(hours.hour) AS last_hour
FROM hours
JOIN picked ON picked.recording = hours.recording
WHERE hours.hour >= picked.first_hour AND hours.hour < picked.end_hour
GROUP BY picked.unit
ORDER BY picked.unit
