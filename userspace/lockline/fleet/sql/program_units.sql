-- Waits for the ranked locks of programs by unit: a host on one side, with one kernel, CPU model and so on.
SELECT
    picked.unit AS unit, program_locks.program AS program, program_locks.lock AS lock, program_locks.code AS code,
    SUM(program_locks.weight * program_locks.wait_ns) AS weighted_ns
FROM program_locks
JOIN picked ON picked.recording = program_locks.recording
JOIN ranked
    ON ranked.program = program_locks.program AND ranked.lock = program_locks.lock AND ranked.code = program_locks.code
WHERE program_locks.hour >= picked.first_hour AND program_locks.hour < picked.end_hour
GROUP BY picked.unit, program_locks.program, program_locks.lock, program_locks.code
ORDER BY unit, program, lock, code
