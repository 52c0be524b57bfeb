-- The containers that waited.
SELECT DISTINCT container FROM containers WHERE container <> ''
