-- How long hosts were observed with an eye on their programs, in ns of weighted host time, by unit.
SELECT picked.unit AS unit, SUM(program_time.weight * program_time.observed_ns) AS weighted_ns
FROM program_time
JOIN picked ON picked.recording = program_time.recording
WHERE program_time.hour >= picked.first_hour AND program_time.hour < picked.end_hour
GROUP BY picked.unit
ORDER BY picked.unit
