-- 1. How many pages does each host have, by status?
SELECT url_host_name AS host, fetch_status AS status, count(*) AS pages FROM urls WHERE subset <> 'unarchived' GROUP BY ALL ORDER BY pages DESC, host, status LIMIT 20;
-- 2. Which hosts are the largest?
SELECT host, sum(urls) AS urls, sum(status_2xx) AS pages, sum(warc_bytes) AS bytes FROM hosts GROUP BY host ORDER BY urls DESC, host LIMIT 20;
-- 3. Which types of content are there?
SELECT content_mime_type AS mime, count(*) AS pages, sum(warc_record_length) AS bytes FROM urls WHERE fetch_status BETWEEN 200 AND 299 GROUP BY ALL ORDER BY pages DESC, mime;
-- 4. Which links are dead, and where do they stand?
SELECT u.fetch_status AS status, l.to_url AS dead, l.from_url AS stands_on FROM links l JOIN urls u ON u.url = l.to_url WHERE u.fetch_status >= 400 ORDER BY dead, stands_on LIMIT 20;
-- 5. Which pages have the same content?
SELECT content_digest_sha256 AS digest, count(DISTINCT url) AS urls, min(url) AS one, max(url) AS another FROM urls WHERE fetch_status BETWEEN 200 AND 299 GROUP BY digest HAVING urls > 1 ORDER BY urls DESC, digest LIMIT 20;
-- 6. Which languages are the pages in?
SELECT language, count(*) AS pages FROM texts GROUP BY language ORDER BY pages DESC, language;
-- 7. How fast was the crawl over time?
SELECT time_bucket(INTERVAL 1 MINUTE, fetch_time) AS minute, count(*) AS fetched, round(count(*) / 60, 1) AS per_second FROM urls WHERE fetch_time IS NOT NULL GROUP BY minute ORDER BY minute;
-- 8. How long does each worker wait for a reply?
SELECT peer AS worker, count(*) AS fetched, count(DISTINCT url_host_name) AS hosts, median(fetch_ms) AS median_ms, quantile_cont(fetch_ms, 0.95) AS p95_ms FROM urls WHERE peer IS NOT NULL GROUP BY worker ORDER BY fetched DESC, worker;
-- 9. Which pages are linked most, and from how many hosts?
SELECT to_url AS page, count(DISTINCT from_url) AS links, count(DISTINCT from_host) AS hosts FROM links WHERE kind = 'link' GROUP BY page ORDER BY links DESC, page LIMIT 20;
-- 10. Which pages changed between two visits?
SELECT url, count(*) AS visits, count(DISTINCT content_digest_sha256) AS versions, max(fetch_time) AS last FROM urls WHERE fetch_status BETWEEN 200 AND 299 GROUP BY url HAVING visits > 1 ORDER BY versions DESC, url LIMIT 20;
