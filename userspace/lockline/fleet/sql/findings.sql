-- What the rules found, by side and rule: on how many hosts, in how many recordings.
SELECT
    picked.side AS side, findings.rule AS rule, COUNT(DISTINCT findings.host) AS hosts,
    COUNT(DISTINCT findings.recording) AS recordings, SUM(findings.weight * findings.wait_ns) AS weighted_ns
FROM findings
JOIN picked ON picked.recording = findings.recording
GROUP BY picked.side, findings.rule
ORDER BY side, hosts DESC, rule
