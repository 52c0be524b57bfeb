-- The facts of every recording, to choose from.
SELECT
    recording, host, weight, boot_id, kernel, cpu_model, architecture, cpus, lockline_version, begin_unix_ns,
    end_unix_ns, observed_ns, waits, wait_ns, lost, release, role
FROM recordings
ORDER BY recording
