-- The same of the wanted containers, from samples; a recording's samples count for the hour in which it begins.
SELECT
    containers.recording AS recording, containers.host AS host, containers.weight AS weight, opened.hour AS hour,
    containers.lock AS lock, containers.kind AS kind, containers.waits AS waits, containers.wait_ns AS wait_ns,
    CAST(0 AS BIGINT) AS max_ns
FROM containers
JOIN (SELECT recording, MIN(hour) AS hour FROM hours GROUP BY recording) AS opened
    ON opened.recording = containers.recording
JOIN wanted ON containers.container = wanted.container
