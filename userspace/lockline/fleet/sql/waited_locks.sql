-- What was waited, by recording, hour, lock and kind.
SELECT recording, host, weight, hour, lock, kind, waits, wait_ns, max_ns FROM lock_hours
