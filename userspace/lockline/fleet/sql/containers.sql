-- The names of all containers, to choose from.
SELECT container FROM known_containers ORDER BY container
