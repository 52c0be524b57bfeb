-- The containers that waited.
SELECT DISTINCT containers.container AS container
FROM containers
JOIN picked ON picked.recording = containers.recording
WHERE containers.container <> ''
