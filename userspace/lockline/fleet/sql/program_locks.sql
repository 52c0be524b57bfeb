-- Waits by side, program and lock of it, most first.
SELECT
    picked.side AS side, program_locks.program AS program, program_locks.lock AS lock, program_locks.code AS code,
    SUM(program_locks.weight * program_locks.wait_ns) AS weighted_ns, SUM(program_locks.waits) AS waits,
    SUM(program_locks.wait_ns) AS wait_ns, MAX(program_locks.max_ns) AS max_ns,
    COUNT(DISTINCT program_locks.host) AS hosts
FROM program_locks
JOIN picked ON picked.recording = program_locks.recording
WHERE program_locks.hour >= picked.first_hour AND program_locks.hour < picked.end_hour
GROUP BY picked.side, program_locks.program, program_locks.lock, program_locks.code
ORDER BY side, weighted_ns DESC, program, lock, code
