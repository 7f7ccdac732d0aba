-- Conditions of a consistent board, in SQL alone: nothing here is shared with the board or its users. Each is a name, how many
-- rows break it, and what it means. Missing rows count as breaking: comparisons are null-safe.
SELECT 'sections', abs((SELECT count(*) FROM sections) - :size_sections), 'sections more or fewer than there were';
SELECT 'stories', abs((SELECT count(*) FROM stories) - :size_stories - :done_stories),
    'stories more or fewer than were there and were posted';
SELECT 'comments', abs((SELECT count(*) FROM comments) - :size_comments - :done_comments),
    'comments more or fewer than were there and were posted';
SELECT 'members', abs((SELECT count(*) FROM members) - :size_members - :done_members),
    'members more or fewer than were there and were entered';
SELECT 'moderations', abs((SELECT count(*) FROM moderations) - :done_moderations),
    'points given or taken more or fewer than users were told of';
SELECT 'children', count(*), 'comments whose counter is not the number of their replies'
FROM comments AS own LEFT JOIN (SELECT co_parent AS of_id, count(*) AS found FROM comments GROUP BY co_parent) AS reply ON of_id = co_id
WHERE co_children IS DISTINCT FROM coalesce(found, 0);
SELECT 'discussed', count(*), 'stories whose counter is not the number of their comments'
FROM stories LEFT JOIN (SELECT co_st_id, count(*) AS found FROM comments GROUP BY co_st_id) AS comment ON co_st_id = st_id
WHERE st_comments IS DISTINCT FROM coalesce(found, 0);
SELECT 'written', count(*), 'members whose counter is not the number of their comments'
FROM members LEFT JOIN (SELECT co_me_id, count(*) AS found FROM comments GROUP BY co_me_id) AS comment ON co_me_id = me_id
WHERE me_comments IS DISTINCT FROM coalesce(found, 0);
SELECT 'filed', count(*), 'sections whose counter is not the number of their stories'
FROM sections LEFT JOIN (SELECT st_se_id, count(*) AS found FROM stories GROUP BY st_se_id) AS story ON st_se_id = se_id
WHERE se_stories IS DISTINCT FROM coalesce(found, 0);
SELECT 'threads', count(*), 'replies to no earlier comment of the same story'
FROM comments AS own LEFT JOIN comments AS parent ON parent.co_id = own.co_parent
    AND parent.co_id < own.co_id AND parent.co_st_id = own.co_st_id
WHERE own.co_parent IS DISTINCT FROM 0 AND parent.co_id IS NULL;
SELECT 'places', count(*), 'comments on no story, and stories in no section'
FROM (SELECT st_id FROM comments LEFT JOIN stories ON st_id = co_st_id
    UNION ALL SELECT se_id FROM stories LEFT JOIN sections ON se_id = st_se_id) AS place WHERE st_id IS NULL;
SELECT 'authors', count(*), 'stories, comments and points of no member'
FROM (SELECT st_me_id AS author FROM stories UNION ALL SELECT co_me_id FROM comments UNION ALL SELECT mo_me_id FROM moderations) AS made
LEFT JOIN members ON me_id = author WHERE me_id IS NULL;
SELECT 'scores', count(*), 'comments whose score is not 1 and the points that they were given, or not from -1 to 5'
FROM comments LEFT JOIN (SELECT mo_co_id, sum(mo_change) AS points FROM moderations GROUP BY mo_co_id) AS given ON mo_co_id = co_id
WHERE co_score IS DISTINCT FROM 1 + coalesce(points, 0) OR co_score NOT BETWEEN -1 AND 5;
SELECT 'karma', count(*), 'members whose karma is not the points that their comments were given'
FROM members LEFT JOIN (
    SELECT co_me_id, sum(mo_change) AS points FROM moderations JOIN comments ON co_id = mo_co_id GROUP BY co_me_id) AS given
    ON co_me_id = me_id
WHERE me_karma IS DISTINCT FROM coalesce(points, 0);
SELECT 'fair', count(*), 'points for own comments or for none, and of more than one'
FROM moderations LEFT JOIN comments ON co_id = mo_co_id
WHERE co_id IS NULL OR co_me_id IS NOT DISTINCT FROM mo_me_id OR abs(mo_change) IS DISTINCT FROM 1;
SELECT 'texts', count(*), 'stories and comments without a title or a text'
FROM (SELECT st_title AS title, st_text AS body FROM stories UNION ALL SELECT co_subject, co_text FROM comments) AS message
WHERE coalesce(title, '') = '' OR coalesce(body, '') = '';
